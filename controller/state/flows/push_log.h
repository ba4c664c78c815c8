#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "common/base/time/event_loop.h"
#include "controller/state/flows/flow_table.h"

namespace espalier::controller {

// A pushed decision: the flow was given this port, which takes this path.
struct PushedPath {
  std::uint64_t sequence = 0;  // 1, 2, ...
  TimePoint time;
  AgentId agent;
  wire::LocalFlowId flow;
  std::shared_ptr<const std::string> job;  // name
  fabric::NodeId source;
  fabric::NodeId destination;
  fabric::PathIndex path;
  std::uint16_t port = 0;
  wire::PathReason reason = wire::PathReason::kAssigned;
};

// Keeps the latest pushed decisions, oldest first, for comparison with the switches' counters.
// Thread safety: the controller's loop thread.
class PushLog {
 public:
  explicit PushLog(std::size_t limit = 65'536) : limit_(limit) {}

  void Record(PushedPath entry) {
    entry.sequence = next_++;
    entries_.push_back(std::move(entry));
    if (entries_.size() > limit_) entries_.pop_front();
  }
  const std::deque<PushedPath>& entries() const { return entries_; }

 private:
  std::size_t limit_;
  std::uint64_t next_ = 1;
  std::deque<PushedPath> entries_;
};

}  // namespace espalier::controller
