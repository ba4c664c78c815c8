#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/state/flows/flow_table.h"

namespace espalier::controller {

// A flow that has ended, as it was at its end.
struct EndedFlow {
  std::uint64_t sequence = 0;  // 1, 2, ...
  TimePoint started;
  TimePoint ended;
  AgentId agent;
  wire::LocalFlowId local;
  std::string job;  // name
  IpAddress source;
  IpAddress destination;
  FlowStatus status = FlowStatus::kRouted;
  wire::PathReason reason = wire::PathReason::kAssigned;
  std::string via;         // the switches on its paths; "": none
  std::uint16_t port = 0;  // the first; 0: none
  std::uint64_t announced_bytes = 0;
};

// Keeps the flows that ended last, oldest first, so that operators can look at a flow after its
// job's round. Memory: about 300 bytes for each, at most 5 MB.
// Thread safety: the controller's loop thread.
class EndedFlows {
 public:
  explicit EndedFlows(std::size_t limit = 16'384) : limit_(limit) {}

  void Record(EndedFlow flow) {
    flow.sequence = next_++;
    flows_.push_back(std::move(flow));
    if (flows_.size() > limit_) flows_.pop_front();
  }
  const std::deque<EndedFlow>& flows() const { return flows_; }

 private:
  std::size_t limit_;
  std::uint64_t next_ = 1;
  std::deque<EndedFlow> flows_;
};

}  // namespace espalier::controller
