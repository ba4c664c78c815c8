#include "controller/routing/rates.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace espalier::controller {

void RatePredictor::ListPaths(std::span<const Commodity> commodities, const Assignment& assignment,
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
  for (std::uint32_t link = 0; link < base_loads.size(); ++link) {
    if (base_loads[link] == 0) continue;
    path_links_.push_back(link);
    path_begin_.push_back(static_cast<std::uint32_t>(path_links_.size()));
    weights_.push_back(static_cast<std::uint32_t>(
        std::min<std::int64_t>(base_loads[link], std::numeric_limits<std::uint32_t>::max())));
  }
}

std::span<const double> RatePredictor::Predict(std::span<const Commodity> commodities,
                                               const Assignment& assignment,
                                               std::span<const std::int64_t> base_loads) {
  ListPaths(commodities, assignment, base_loads);
  const std::size_t subflow_count = assignment.first[commodities.size()];
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

void RatePredictor::BoundByDemands(std::span<const Commodity> commodities,
                                   const Assignment& assignment, std::span<const Demand> demands) {
  capacities_.assign(view_.capacities_bps().begin(), view_.capacities_bps().end());
  std::vector<std::uint32_t> links;
  std::vector<std::uint32_t> begin{0};
  links.reserve(path_links_.size() + weights_.size());
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    const Demand& demand = demands[i];
    for (std::size_t s = assignment.first[i]; s < assignment.first[i + 1]; ++s) {
      const auto from = path_links_.begin() + path_begin_[s];
      const auto to = path_links_.begin() + path_begin_[s + 1];
      if (demand.bps > 0) links.insert(links.end(), from, to);
      if (demand.bps > 0 && from != to && demand.bps < std::numeric_limits<double>::infinity()) {
        links.push_back(static_cast<std::uint32_t>(capacities_.size()));
        capacities_.push_back(demand.bps * weights_[s] / static_cast<double>(kLoadUnit));
      }
      begin.push_back(static_cast<std::uint32_t>(links.size()));
      const double weight = demand.weight * weights_[s];
      weights_[s] = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(weight));
    }
  }
  for (std::size_t s = begin.size() - 1; s < weights_.size(); ++s) {  // base loads
    links.push_back(path_links_[path_begin_[s]]);
    begin.push_back(static_cast<std::uint32_t>(links.size()));
  }
  path_begin_ = std::move(begin);
  path_links_ = std::move(links);
}

void RatePredictor::MeasureLinks(std::span<const double> solved) {
  const std::size_t real = view_.capacities_bps().size();
  left_.assign(capacities_.begin(), capacities_.begin() + static_cast<std::ptrdiff_t>(real));
  fastest_.assign(real, 0);
  for (std::size_t s = 0; s < solved.size(); ++s) {
    for (std::size_t i = path_begin_[s]; i < path_begin_[s + 1]; ++i) {
      const std::uint32_t link = path_links_[i];
      if (link >= real) continue;
      left_[link] -= solved[s];
      fastest_[link] = std::max(fastest_[link], solved[s] / weights_[s]);
    }
  }
}

double RatePredictor::LimitOf(const Commodity& commodity, const Assignment& assignment,
                              std::size_t first, std::size_t end, std::span<const double> solved,
                              bool adds_up) {
  const auto links_of = [&](std::size_t s) {
    return std::span(path_links_).subspan(path_begin_[s], path_begin_[s + 1] - path_begin_[s]);
  };
  const auto share_of = [&](std::size_t s) {
    return static_cast<double>(assignment.ShareOf(commodity, s));
  };
  for (std::size_t s = first; s < end; ++s) {
    for (const std::uint32_t link : links_of(s)) {
      own_rate_[link] += solved[s];
      own_share_[link] += share_of(s);
    }
  }
  constexpr auto kWhole = static_cast<double>(kLoadUnit);
  double sum = 0;
  double slowest = std::numeric_limits<double>::infinity();  // for the whole commodity
  double most = std::numeric_limits<double>::infinity();     // by links that all of it takes
  for (std::size_t s = first; s < end; ++s) {
    double part = links_of(s).empty() ? 0 : std::numeric_limits<double>::infinity();  // for a share
    for (const std::uint32_t link : links_of(s)) {
      const double all =
          std::max(fastest_[link] * own_share_[link], own_rate_[link] + std::max(left_[link], 0.0));
      part = std::min(part, all / own_share_[link]);
      if (own_share_[link] >= kWhole * 0.999) most = std::min(most, all);
    }
    slowest = std::min(slowest, part * kWhole);
    sum += part * share_of(s);
  }
  for (std::size_t s = first; s < end; ++s) {
    for (const std::uint32_t link : links_of(s)) own_rate_[link] = own_share_[link] = 0;
  }
  return adds_up ? std::min(sum, most) : slowest;
}

std::span<const double> RatePredictor::PredictLimits(std::span<const Commodity> commodities,
                                                     const Assignment& assignment,
                                                     std::span<const std::int64_t> base_loads,
                                                     std::span<const Demand> demands,
                                                     std::span<const std::uint8_t> adds_up) {
  ListPaths(commodities, assignment, base_loads);
  const std::vector<std::uint32_t> own_begin = path_begin_;
  const std::vector<std::uint32_t> own_links = path_links_;
  BoundByDemands(commodities, assignment, demands);
  const auto solved = max_min_.Solve(capacities_, path_begin_, path_links_, 0, weights_);
  MeasureLinks(solved);
  path_begin_ = own_begin;
  path_links_ = own_links;
  own_rate_.resize(left_.size());
  own_share_.resize(left_.size());
  rates_.resize(commodities.size());
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    rates_[i] = LimitOf(commodities[i], assignment, assignment.first[i], assignment.first[i + 1],
                        solved, adds_up[i] != 0);
  }
  return rates_;
}

Score ComputeScore(std::span<const Commodity> commodities, std::span<const double> rates,
                   std::span<const std::uint32_t> job_weights) {
  constexpr double kNothing = std::numeric_limits<double>::infinity();
  Score score;
  std::uint32_t jobs = 0;
  for (const Commodity& commodity : commodities) jobs = std::max(jobs, commodity.job + 1);
  score.job_rates.assign(jobs, kNothing);
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    if (rates[i] <= 0) continue;  // unroutable in every assignment
    const Commodity& commodity = commodities[i];
    const double weight = job_weights.empty() ? 1 : job_weights[commodity.job];
    const double rate = rates[i] / weight;
    double& slowest = score.job_rates[commodity.job];
    slowest = std::min(slowest, rate);
    score.total_rate += rates[i];
  }
  std::sort(score.job_rates.begin(), score.job_rates.end());
  while (!score.job_rates.empty() && score.job_rates.back() == kNothing) {
    score.job_rates.pop_back();  // job numbers without flows
  }
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
  return Compare(score.total_rate, than.total_rate) > 0;
}

}  // namespace espalier::controller
