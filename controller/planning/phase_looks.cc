#include "controller/planning/phase_looks.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace espalier::controller {

void PhaseLooks::Look(std::span<const Found> all) {
  for (auto& [job, looks] : jobs_) looks.is_present = false;
  for (const Found& found : all) {
    Looks& looks = jobs_[found.job];
    looks.is_present = true;
    const bool is_same = std::exchange(looks.digest, found.digest) == found.digest;
    looks.same = is_same ? looks.same + 1 : 0;
    const bool lasts = looks.digest == looks.planned && looks.same >= 2 * looks.needed;
    if (!lasts || looks.needed == 1) continue;
    looks.needed /= 2;
    looks.same = 0;
  }
  std::erase_if(jobs_, [](const auto& job) { return !job.second.is_present; });
}

void PhaseLooks::LookAgain() {
  std::vector<Found> all;
  for (const auto& [job, looks] : jobs_) all.push_back({job, looks.digest});
  Look(all);
}

bool PhaseLooks::ArePlanned() const {
  return std::ranges::all_of(
      jobs_, [](const auto& job) { return job.second.digest == job.second.planned; });
}

bool PhaseLooks::AreConfirmed() const {
  return std::ranges::any_of(jobs_, [](const auto& job) { return job.second.IsConfirmed(); });
}

void PhaseLooks::HandlePlan(bool is_for_flows) {
  for (auto& [job, looks] : jobs_) {
    if (!is_for_flows && looks.IsConfirmed()) looks.needed = std::min(2 * looks.needed, kMostLooks);
    looks.planned = looks.digest;
  }
}

}  // namespace espalier::controller
