#include "agent/flows/rank_plan_table.h"

#include <vector>

// Problem: rank plans are too large for the push that decides on them, so they are separate
// messages, and a rank must never run a plan whose ports are not those of the push.
// Idea: two tables. Rank plans of the next push collect in coming_, labelled with its epoch and
// generation; a rank plan with another label empties the table first. The push says how many there
// are, so the agent applies it only if all have arrived, and else asks for a full push.
// Invariant: in_force_ holds the rank plans of applied pushes only, one for each rank.
// Cost: O(log plans) for each rank plan; a full push also visits all that are in force.

namespace espalier::agent {
namespace {

// Maximum number of ranks on one host, of all its jobs.
constexpr std::size_t kMaxPlans = 4'096;

}  // namespace

void RankPlanTable::HandlePlan(const wire::RankPlan& plan) {
  if (plan.epoch != epoch_ || plan.generation != generation_) {
    epoch_ = plan.epoch;
    generation_ = plan.generation;
    coming_.clear();
  }
  if (coming_.size() < kMaxPlans) coming_[{plan.job, plan.rank}] = plan;
}

bool RankPlanTable::HasAllPlans(const wire::PathPush& push) const {
  if (push.plans == 0) return true;
  return push.epoch == epoch_ && push.generation == generation_ && coming_.size() == push.plans;
}

void RankPlanTable::Apply(const wire::PathPush& push) {
  std::map<Rank, wire::RankPlan> plans;
  if (push.plans != 0) plans.swap(coming_);
  if (push.full) {
    std::vector<Rank> gone;
    for (const auto& [rank, plan] : in_force_) {
      if (!plans.contains(rank)) gone.push_back(rank);
    }
    for (const Rank& rank : gone) {
      wire::RankPlan ended;
      ended.job = rank.first;
      ended.rank = rank.second;
      Set(ended);
    }
  }
  for (const auto& [rank, plan] : plans) Set(plan);
}

void RankPlanTable::Set(const wire::RankPlan& plan) {
  const Rank rank(plan.job, plan.rank);
  const auto known = in_force_.find(rank);
  if (plan.program.empty()) {
    if (known == in_force_.end()) return;
    in_force_.erase(known);
  } else {
    const bool is_repeated = known != in_force_.end() && known->second.version == plan.version;
    in_force_[rank] = plan;
    if (is_repeated) return;
  }
  if (on_change_) on_change_(plan);
}

}  // namespace espalier::agent
