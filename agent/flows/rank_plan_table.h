#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "proto/messages.h"

namespace espalier::agent {

// What the ranks on this host are to do: plans come ahead of the push that puts them in force,
// which says how many they are. They stay in force when the controller falls silent: connections
// that exist keep their ports, and a program that starts anew finds its plan. Thread safety: one
// thread. Complexity: O(log plans) a plan, O(plans) a full push.
class RankPlanTable {
 public:
  using Rank = std::pair<std::string, std::uint32_t>;  // of a job

  // Called with every plan that is new in force, and with one without a program for a rank that
  // has none any more.
  void OnChange(std::function<void(const wire::RankPlan&)> callback) {
    on_change_ = std::move(callback);
  }

  // Kept until its push; what is of another push than the last one is forgotten.
  void HandlePlan(const wire::RankPlan& plan);
  // All plans that go with this push are here.
  bool HasAllPlans(const wire::PathPush& push) const;
  // Puts them in force; with a full push they are all that there is.
  void Apply(const wire::PathPush& push);

  const std::map<Rank, wire::RankPlan>& in_force() const { return in_force_; }

 private:
  void Set(wire::RankPlan plan);

  std::function<void(const wire::RankPlan&)> on_change_;
  std::uint64_t epoch_ = 0;  // of those that are to come into force
  std::uint64_t generation_ = 0;
  std::map<Rank, wire::RankPlan> coming_;
  std::map<Rank, wire::RankPlan> in_force_;
};

}  // namespace espalier::agent
