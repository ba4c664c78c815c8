#include "controller/planning/phase_looks.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

constexpr int kFewestLasting = 32;  // looks, 16 s, after which phases may count as lasting

}  // namespace

void PhaseLooks::Look(std::span<const Found> all) {
  for (auto& [job, looks] : jobs_) looks.is_present = false;
  for (const Found& found : all) {
    Looks& looks = jobs_[found.job];
    looks.is_present = true;
    const bool is_same = std::exchange(looks.digest, found.digest) == found.digest;
    looks.same = is_same ? looks.same + 1 : 0;
    looks.restless = IsCalm(looks) ? 0 : looks.restless + 1;
  }
  std::erase_if(jobs_, [](const auto& job) { return !job.second.is_present; });
  const int lasting = std::max(2 * needed_, kFewestLasting);
  const bool has_lasted = std::ranges::all_of(jobs_, [&](const auto& job) {
    const Looks& looks = job.second;
    return !Counts(looks) || (looks.digest == looks.planned && looks.same >= lasting);
  });
  if (!has_lasted || needed_ == 1) return;
  needed_ /= 2;
  for (auto& [job, looks] : jobs_) looks.same = 0;
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
  const auto is_other = [&](const auto& job) {
    return IsCalm(job.second) && job.second.digest != job.second.planned;
  };
  const auto is_settled = [&](const auto& job) {
    return IsCalm(job.second) || !Counts(job.second);
  };
  return std::ranges::any_of(jobs_, is_other) && std::ranges::all_of(jobs_, is_settled);
}

void PhaseLooks::HandlePlan(bool is_for_flows) {
  if (!is_for_flows) needed_ = std::min(2 * needed_, kMostLooks);
  for (auto& [job, looks] : jobs_) looks.planned = looks.digest;
}

}  // namespace espalier::controller
