#pragma once

#include <cstdint>
#include <map>
#include <span>

namespace espalier::controller {

// Tells when the phases of jobs have been the same for long enough to plan for them.
//
// Phases are looked at again and again, and a flow that is late once seems to be in another phase.
// So other phases count when so many further looks have found the same. Each plan that they cause
// doubles this number, for all jobs, up to kMostLooks, and it halves each time when they have
// lasted twice as long, and for 16 s: phases that never repeat for long must not move flows back
// and forth.
//
// All jobs must be calm at the same time, but for those that have not been so for kPatience looks
// more than are needed: a job without order keeps no other from being planned for.
//
// Memory and complexity of each call: O(jobs). Thread safety: none.
class PhaseLooks {
 public:
  static constexpr int kMostLooks = 64;
  static constexpr int kPatience = 60;  // half a minute (PhasePlan::kMinInterval)

  struct Found {
    std::uint32_t job = 0;
    std::uint64_t digest = 0;  // of its phases
  };
  // Takes what a look has found of all jobs; others are forgotten.
  void Look(std::span<const Found> all);
  // A look has found what the last one has.
  void LookAgain();

  // Whether the phases are those of the last plan.
  bool ArePlanned() const;
  // Whether a calm job's phases are others, and no job is waited for.
  bool AreConfirmed() const;
  // A plan is made for these phases; `is_for_flows`: because flows or links have changed.
  void HandlePlan(bool is_for_flows);

 private:
  struct Looks {
    std::uint64_t digest = 0;
    std::uint64_t planned = 0;
    int same = 0;      // in a row that found these phases, after the first
    int restless = 0;  // since it was calm
    bool is_present = true;
  };
  bool IsCalm(const Looks& looks) const { return looks.same >= needed_; }
  // Whether its phases matter to the others.
  bool Counts(const Looks& looks) const { return looks.restless <= needed_ + kPatience; }

  std::map<std::uint32_t, Looks> jobs_;
  int needed_ = 1;  // looks that must find the same
};

}  // namespace espalier::controller
