#include "controller/routing/rates.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

namespace espalier::controller {

std::span<const double> RatePredictor::Predict(std::span<const Commodity> commodities,
                                               const Assignment& assignment,
                                               std::span<const std::int64_t> base_loads) {
  path_begin_.assign(1, 0);
  path_links_.clear();
  weights_.clear();
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    const Commodity& commodity = commodities[i];
    const bool is_local = commodity.source == commodity.destination;
    for (std::size_t subflow = assignment.first[i]; subflow < assignment.first[i + 1]; ++subflow) {
      const std::int32_t path = assignment.paths[subflow];
      if (path != kNoPath) {
        view_.AppendHops(commodity.source, commodity.destination, path, path_links_);
      }
      if (path != kNoPath || is_local) {
        for (const std::uint32_t link : {commodity.source_link, commodity.destination_link}) {
          if (link != kNoLink) path_links_.push_back(link);
        }
      }
      path_begin_.push_back(static_cast<std::uint32_t>(path_links_.size()));
      weights_.push_back(static_cast<std::uint32_t>(assignment.ShareOf(commodity, subflow)));
    }
  }
  const std::size_t subflow_count = weights_.size();
  for (std::uint32_t link = 0; link < base_loads.size(); ++link) {
    if (base_loads[link] == 0) continue;
    path_links_.push_back(link);
    path_begin_.push_back(static_cast<std::uint32_t>(path_links_.size()));
    weights_.push_back(static_cast<std::uint32_t>(
        std::min<std::int64_t>(base_loads[link], std::numeric_limits<std::uint32_t>::max())));
  }
  const auto solved = max_min_.Solve(view_.capacities_bps(), path_begin_, path_links_, 0, weights_);
  subflow_rates_.assign(solved.begin(),
                        solved.begin() + static_cast<std::ptrdiff_t>(subflow_count));
  rates_.resize(commodities.size());
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    const Commodity& commodity = commodities[i];
    const auto subflows =
        std::span(subflow_rates_).subspan(assignment.first[i], commodity.subflows);
    const bool is_unbound = commodity.source == commodity.destination &&
                            commodity.source_link == kNoLink &&
                            commodity.destination_link == kNoLink;
    if (is_unbound) {
      std::fill(subflows.begin(), subflows.end(),
                static_cast<double>(view_.unit_bps()) / commodity.subflows);
    }
    // As fast as the slowest of its parts, relative to what the part carries.
    rates_[i] = std::numeric_limits<double>::infinity();
    for (std::size_t s = assignment.first[i]; s < assignment.first[i + 1]; ++s) {
      const double parts =
          static_cast<double>(kLoadUnit) / static_cast<double>(assignment.ShareOf(commodity, s));
      rates_[i] = std::min(rates_[i], parts * subflow_rates_[s]);
    }
  }
  return rates_;
}

Score ComputeScore(std::span<const Commodity> commodities, std::span<const double> rates,
                   std::span<const std::uint32_t> job_weights, bool with_phases) {
  constexpr double kNothing = std::numeric_limits<double>::infinity();
  Score score;
  std::uint32_t jobs = 0;
  for (const Commodity& commodity : commodities) jobs = std::max(jobs, commodity.job + 1);
  score.job_rates.assign(jobs, kNothing);
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> phases;
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    if (rates[i] <= 0) continue;  // unroutable in every assignment
    const Commodity& commodity = commodities[i];
    const double weight = job_weights.empty() ? 1 : job_weights[commodity.job];
    const double rate = rates[i] / weight;
    double& slowest = score.job_rates[commodity.job];
    slowest = std::min(slowest, rate);
    if (with_phases) {
      auto [entry, is_new] = phases.try_emplace({commodity.job, commodity.phase}, rate);
      entry->second = std::min(entry->second, rate);
    }
    score.total_rate += rates[i];
  }
  std::sort(score.job_rates.begin(), score.job_rates.end());
  while (!score.job_rates.empty() && score.job_rates.back() == kNothing) {
    score.job_rates.pop_back();  // job numbers without flows
  }
  for (const auto& [phase, rate] : phases) score.phase_rates.push_back(rate);
  std::sort(score.phase_rates.begin(), score.phase_rates.end());
  return score;
}

namespace {

// -1, 0, 1
int Compare(double a, double b) {
  const double slack = 1e-9 * std::max(a, b);
  if (a > b + slack) return 1;
  return b > a + slack ? -1 : 0;
}

int Compare(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (const int order = Compare(a[i], b[i]); order != 0) return order;
  }
  return 0;
}

}  // namespace

bool IsBetter(const Score& score, const Score& than) {
  if (const int order = Compare(score.job_rates, than.job_rates); order != 0) return order > 0;
  if (const int order = Compare(score.phase_rates, than.phase_rates); order != 0) return order > 0;
  return Compare(score.total_rate, than.total_rate) > 0;
}

}  // namespace espalier::controller
