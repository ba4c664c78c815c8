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

// One flow that an action moves, or would move, as operators see it.
struct FlowMove {
  std::string flow;
  std::string job;
  std::string from;  // State::Via; "" = ECMP
  std::string to;
  std::int64_t bytes_in_flight = 0;  // of the flow; in a recomputation, of the subflows that move
};

// A flow that has left its paths, with all that a report of the move needs: the flow may end before
// the report is made.
struct Rerouted {
  FlowSlot slot;
  AgentId agent;
  wire::LocalFlowId local;
  std::shared_ptr<const std::string> job;
  fabric::NodeId source_leaf;
  fabric::NodeId destination_leaf;
  // Indices into PathTable::Between: `left` paths that it left, then those that it took.
  std::array<std::int32_t, 2 * kMaxSubflows> paths{};
  std::size_t left = 0;
  std::size_t all = 0;

  std::span<const std::int32_t> from() const { return std::span(paths).first(left); }
  std::span<const std::int32_t> to() const { return std::span(paths).subspan(left, all - left); }
};

// Records a move: BeginMove before the flow leaves its paths, EndMove when it has taken others.
Rerouted BeginMove(const State& state, FlowSlot slot);
void EndMove(const State& state, Rerouted& moved);
// Whether the slot still holds the flow that was moved.
bool IsStillOpen(const State& state, const Rerouted& moved);

// Describes moves for operators, at any later time. Flows that have ended have 0 bytes in flight.
std::vector<FlowMove> Describe(const State& state, std::span<const Rerouted> rerouted);
// Describes the move of a flow from `from` to its present paths.
FlowMove DescribeMove(const State& state, FlowSlot slot, std::string from);

}  // namespace espalier::controller
