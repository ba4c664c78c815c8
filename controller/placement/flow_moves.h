#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "controller/routing/assignment.h"
#include "controller/state/state.h"

namespace espalier::controller {

// One flow that an action moves (or would), as operators are told of it.
struct FlowMove {
  std::string flow;
  std::string job;
  std::string from;  // State::Via; "" = ECMP
  std::string to;
  std::int64_t bytes_in_flight = 0;  // of its ways that move, by the last report
};

// A flow that has left its paths; all that there is to tell of it, as it may end before that.
struct Rerouted {
  FlowSlot slot;
  AgentId agent;
  wire::LocalFlowId local;
  std::shared_ptr<const std::string> job;
  fabric::NodeId source_leaf;
  fabric::NodeId destination_leaf;
  // By index into PathTable::Between: those that it left, then those that it took.
  std::array<std::int32_t, 2 * kMaxSubflows> paths{};
  std::size_t left = 0;
  std::size_t all = 0;

  std::span<const std::int32_t> from() const { return std::span(paths).first(left); }
  std::span<const std::int32_t> to() const { return std::span(paths).subspan(left, all - left); }
};

// What there is to tell of a flow, before it leaves its paths (Begin) and when it has others (End).
Rerouted BeginMove(const State& state, FlowSlot slot);
void EndMove(const State& state, Rerouted& moved);
// The slot still stands for the flow that was moved.
bool IsStillOpen(const State& state, const Rerouted& moved);

// For operators, at any time later; with the bytes in flight of those that are still open.
std::vector<FlowMove> Describe(const State& state, std::span<const Rerouted> rerouted);
// Of a flow as it is now, which was on `from`.
FlowMove DescribeMove(const State& state, FlowSlot slot, std::string from);

}  // namespace espalier::controller
