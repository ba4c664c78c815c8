#include "agent/probe/probe_budget.h"

#include <iterator>

namespace espalier::agent {

ProbeBudget::ProbeBudget(const ProbeBudgetOptions& options, TimePoint now)
    : options_(options), all_(options.per_second, options.per_second, now) {}

bool ProbeBudget::Take(const IpAddress& destination, std::size_t probes, TimePoint now) {
  const auto amount = static_cast<double>(probes);
  if (all_.Level(now) < amount) return false;
  auto known = destinations_.find(destination);
  if (known == destinations_.end()) {
    if (destinations_.size() >= options_.max_destinations && !MakeRoom(now)) return false;
    const TokenBucket full(options_.per_second_and_destination,
                           static_cast<double>(options_.burst_for_destination), now);
    known = destinations_.emplace(destination, full).first;
  }
  if (known->second.Level(now) < amount) return false;
  known->second.Take(amount, now);
  all_.Take(amount, now);
  return true;
}

bool ProbeBudget::MakeRoom(TimePoint now) {
  const auto full = static_cast<double>(options_.burst_for_destination);
  const std::size_t before = destinations_.size();
  for (auto at = destinations_.begin(); at != destinations_.end();) {
    at = at->second.Level(now) >= full ? destinations_.erase(at) : std::next(at);
  }
  return destinations_.size() < before;
}

}  // namespace espalier::agent
