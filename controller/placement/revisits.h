#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <unordered_set>
#include <vector>

#include "common/fabric/ecmp/path_map.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The keys of the path map that have changed and whose flows are still to be visited, one flow at a
// time, so that a key with thousands of flows does not hold the loop. A key that changes again
// while it waits is visited once. Thread safety: the controller's loop thread.
class Revisits {
 public:
  void Add(const fabric::PortKey& key) {
    if (waiting_.insert(key).second) keys_.push_back(key);
  }
  bool IsEmpty() const { return keys_.empty() && flows_.empty(); }

  // The next flow to visit; none: of this key, which no flow has (`key()`), or nothing waits.
  // Flows that have closed meanwhile are left out.
  std::optional<FlowSlot> Next(const State& state) {
    while (!flows_.empty()) {
      const FlowSlot slot = flows_.back();
      flows_.pop_back();
      if (state.flows.IsOpen(slot) && state.flows.At(slot).key == key_) return slot;
    }
    if (keys_.empty()) return std::nullopt;
    key_ = keys_.front();
    keys_.pop_front();
    waiting_.erase(key_);
    const auto found = state.flow_paths.pairs().find(key_);
    if (found == state.flow_paths.pairs().end()) return std::nullopt;
    flows_.assign(found->second.rbegin(), found->second.rend());
    return Next(state);
  }
  const fabric::PortKey& key() const { return key_; }

 private:
  std::deque<fabric::PortKey> keys_;
  std::unordered_set<fabric::PortKey> waiting_;  // those in keys_
  fabric::PortKey key_;                          // of flows_
  std::vector<FlowSlot> flows_;                  // the last one comes next
};

}  // namespace espalier::controller
