#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "proto/messages.h"

namespace espalier::agent {

// Holds the rank plans of the ranks on this host. Rank plans arrive before the push that puts them
// in force, which says how many there are. They stay in force when the controller is silent:
// existing connections keep their ports, and a program that restarts finds its rank plan.
// Thread safety: one thread. Complexity: O(log plans) for each rank plan, O(plans) for a full push.
class RankPlanTable {
 public:
  using Rank = std::pair<std::string, std::uint32_t>;  // job and rank

  // Sets what is called with each rank plan that comes into force or changes. A rank plan without
  // a program means that the rank has none any more.
  void OnChange(std::function<void(const wire::RankPlan&)> callback) {
    on_change_ = std::move(callback);
  }

  // Keeps the rank plan until its push arrives. Drops those that wait for another push.
  void HandlePlan(const wire::RankPlan& plan);
  // True if all rank plans of this push have arrived.
  bool HasAllPlans(const wire::PathPush& push) const;
  // Puts the rank plans of this push in force. A full push ends all others.
  void Apply(const wire::PathPush& push);

  const std::map<Rank, wire::RankPlan>& in_force() const { return in_force_; }

 private:
  void Set(const wire::RankPlan& plan);

  std::function<void(const wire::RankPlan&)> on_change_;
  std::uint64_t epoch_ = 0;  // of the push that coming_ waits for
  std::uint64_t generation_ = 0;
  std::map<Rank, wire::RankPlan> coming_;
  std::map<Rank, wire::RankPlan> in_force_;
};

}  // namespace espalier::agent
