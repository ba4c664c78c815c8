#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "common/base/time/time_budget.h"
#include "controller/state/state.h"
#include "proto/messages.h"

namespace espalier::controller {

// Reports on paths that wait for their turn. kRowsAtOnce rows between two turns are handled as they
// come, more in parts, in later turns: a host may send thousands at once, as when many of its flows
// have lost their path, and must not hold the loop. Agents with waiting rows take turns, and each
// agent's rows keep their order. Beyond kMostWaiting rows of one agent, further ones are dropped.
// Thread safety: the controller's loop thread.
class HealthQueue {
 public:
  using Handle = std::function<void(AgentId, const wire::PathHealth&)>;
  static constexpr std::size_t kRowsAtOnce = 256;
  static constexpr std::size_t kMostWaiting = 32'768;

  explicit HealthQueue(Handle handle) : handle_(std::move(handle)) {}

  // Returns how many rows were dropped.
  std::size_t Add(AgentId agent, const wire::PathHealth& health) {
    const bool waits = waiting_.contains(agent) || at_once_ + health.flows.size() > kRowsAtOnce;
    if (!waits) {
      at_once_ += health.flows.size();
      handle_(agent, health);
      return 0;
    }
    std::deque<wire::FlowHealth>& rows = waiting_[agent];
    const std::size_t room = kMostWaiting - std::min(rows.size(), kMostWaiting);
    const std::size_t taken = std::min(room, health.flows.size());
    rows.insert(rows.end(), health.flows.begin(),
                health.flows.begin() + static_cast<std::ptrdiff_t>(taken));
    return health.flows.size() - taken;
  }
  // A turn: handles waiting rows, some of each agent in turn, until the budget is spent.
  void HandleSome(const TimeBudget& budget) {
    at_once_ = 0;
    while (!waiting_.empty()) {
      auto next = waiting_.upper_bound(last_);
      if (next == waiting_.end()) next = waiting_.begin();
      last_ = next->first;
      wire::PathHealth part;
      std::deque<wire::FlowHealth>& rows = next->second;
      const auto end =
          rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), kRowsAtOnce));
      part.flows.assign(rows.begin(), end);
      rows.erase(rows.begin(), end);
      if (rows.empty()) waiting_.erase(next);
      handle_(last_, part);
      if (budget.IsSpent()) return;
    }
  }
  // Forgets what waits of an agent whose process has gone: flows of the next one may have the same
  // numbers.
  void Forget(AgentId agent) { waiting_.erase(agent); }
  bool IsEmpty() const { return waiting_.empty(); }

 private:
  Handle handle_;
  std::map<AgentId, std::deque<wire::FlowHealth>> waiting_;
  AgentId last_{-1};
  std::size_t at_once_ = 0;  // rows that were handled as they came, since the last turn
};

}  // namespace espalier::controller
