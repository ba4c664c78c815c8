#include "controller/ledger/ledger_book.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

namespace espalier::controller {
namespace {

constexpr std::size_t kPresent = static_cast<std::size_t>(Scheme::kPresent);

double Mean(const BurstCosts::Seconds& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

double SecondsIn(Duration duration) { return std::max(0.0, SecondsOf(duration)); }

}  // namespace

void BurstSums::Add(const BurstSums& other) {
  bursts += other.bursts;
  skipped += other.skipped;
  flows += other.flows;
  crossing += other.crossing;
  known += other.known;
  proven += other.proven;
  gpus = std::max(gpus, other.gpus);
  measured_seconds += other.measured_seconds;
  measured_squares += other.measured_squares;
  for (std::size_t i = 0; i < kSchemes; ++i) {
    schemes[i].bursts += other.schemes[i].bursts;
    for (std::size_t draw = 0; draw < BurstCosts::kDraws; ++draw) {
      schemes[i].seconds[draw] += other.schemes[i].seconds[draw];
    }
  }
}

double MeanSeconds(const BurstSums& sums) {
  return sums.bursts == 0 ? 0 : sums.measured_seconds / static_cast<double>(sums.bursts);
}

double StandardError(const BurstSums& sums) {
  if (sums.bursts < 2) return 0;
  const auto count = static_cast<double>(sums.bursts);
  const double mean = MeanSeconds(sums);
  const double variance = (sums.measured_squares - count * mean * mean) / (count - 1);
  return std::sqrt(std::max(0.0, variance) / count);
}

SchemeEstimate Estimate(const BurstSums& sums, Scheme scheme) {
  SchemeEstimate estimate;
  const BurstSums::OfScheme& of = sums.schemes[static_cast<std::size_t>(scheme)];
  estimate.applies = sums.bursts > 0 && of.bursts == sums.bursts;
  if (!estimate.applies) return estimate;
  const auto count = static_cast<double>(sums.bursts);
  BurstCosts::Seconds of_burst{};
  for (std::size_t draw = 0; draw < BurstCosts::kDraws; ++draw) {
    const double change = of.seconds[draw] - sums.schemes[kPresent].seconds[draw];
    of_burst[draw] = MeanSeconds(sums) + change / count;
  }
  estimate.seconds = Mean(of.seconds) / count;
  estimate.burst_seconds = Mean(of_burst);
  std::ranges::sort(of_burst);
  estimate.low = of_burst[BurstCosts::kDraws / 10];
  estimate.high = of_burst[BurstCosts::kDraws - 1 - BurstCosts::kDraws / 10];
  return estimate;
}

void LedgerBook::Add(WallTime at, const SeenBurst& burst, const BurstCosts& costs) {
  const auto age = at.time_since_epoch();
  const WallTime begin(age - age % std::chrono::duration_cast<WallTime::duration>(kStep));
  const Key key{begin, burst.job, burst.placing};
  const auto of_step = entries_.lower_bound({begin, "", Placing::kEcmp});
  if (!entries_.contains(key) &&
      static_cast<std::size_t>(std::distance(of_step, entries_.end())) >= kMostOfStep) {
    ++left_out_;
    return;
  }
  BurstSums& sums = entries_[key];
  const double measured = SecondsIn(burst.duration);
  const double present = Mean(*costs.seconds[kPresent]);
  const double scale = present > measured ? measured / present : 1;
  ++sums.bursts;
  sums.skipped += burst.skipped;
  sums.flows += burst.own;
  sums.crossing += costs.crossing;
  sums.known += costs.known;
  sums.proven += costs.is_proven ? 1 : 0;
  sums.gpus = std::max(sums.gpus, burst.gpus);
  sums.measured_seconds += measured;
  sums.measured_squares += measured * measured;
  for (std::size_t i = 0; i < kSchemes; ++i) {
    if (!costs.seconds[i]) continue;
    ++sums.schemes[i].bursts;
    for (std::size_t draw = 0; draw < BurstCosts::kDraws; ++draw) {
      sums.schemes[i].seconds[draw] += scale * (*costs.seconds[i])[draw];
    }
  }
  changed_.insert(key);
  Trim(begin);
}

void LedgerBook::Trim(WallTime begin) {
  const WallTime oldest = begin - std::chrono::duration_cast<WallTime::duration>(kReach);
  while (!entries_.empty() &&
         (entries_.size() > kMostEntries || entries_.begin()->first.begin < oldest)) {
    changed_.erase(entries_.begin()->first);
    entries_.erase(entries_.begin());
  }
}

void LedgerBook::Restore(Entries entries, WallTime now) {
  entries_ = std::move(entries);
  std::erase_if(entries_, [&](const auto& entry) { return entry.first.begin > now; });
  Trim(now);
}

std::vector<LedgerBook::Key> LedgerBook::TakeChanged() {
  std::vector<Key> keys(changed_.begin(), changed_.end());
  changed_.clear();
  return keys;
}

}  // namespace espalier::controller
