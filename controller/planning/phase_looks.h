#pragma once

#include <cstdint>
#include <map>
#include <span>

namespace espalier::controller {

// Tells when the phases of jobs have been the same for long enough to plan for them.
//
// Phases are looked at again and again, and a flow that is late once seems to be in another phase.
// So a job's phases count when so many looks in a row have found the same. Each plan that they
// cause doubles this number, up to kMostLooks, and it halves each time when they have lasted twice
// as long: phases that never repeat for long must not move flows back and forth. Each job counts
// for itself, so one without order does not keep others from being planned for.
//
// Memory and complexity of each call: O(jobs). Thread safety: none.
class PhaseLooks {
 public:
  static constexpr int kMostLooks = 64;

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
  // Whether a job's phases are others, and have lasted.
  bool AreConfirmed() const;
  // A plan is made for these phases; `is_for_flows`: because flows or links have changed.
  void HandlePlan(bool is_for_flows);

 private:
  struct Looks {
    std::uint64_t digest = 0;
    std::uint64_t planned = 0;
    int same = 0;    // in a row that found these phases, after the first
    int needed = 1;  // that must do so before other phases are planned for
    bool is_present = true;

    bool IsConfirmed() const { return digest != planned && same >= needed; }
  };

  std::map<std::uint32_t, Looks> jobs_;
};

}  // namespace espalier::controller
