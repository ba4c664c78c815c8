#include "common/graph/max_min.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"

namespace espalier::graph {

void MaxMin::Open(std::span<const double> capacities, std::span<const std::uint32_t> path_begin,
                  std::span<const std::uint32_t> path_links,
                  std::span<const std::uint32_t> weights) {
  if (links_.size() < capacities.size()) links_.resize(capacities.size());
  if (++stamp_ == 0) {  // the stamp wrapped around, so old stamps could match
    for (Link& link : links_) link.stamp = 0;
    stamp_ = 1;
  }
  pass_ = 0;
  for (std::size_t flow = 0; flow + 1 < path_begin.size(); ++flow) {
    if (path_begin[flow] == path_begin[flow + 1]) continue;
    open_flows_.push_back(static_cast<std::uint32_t>(flow));
    const std::uint32_t weight = weights.empty() ? 1 : weights[flow];
    for (std::uint32_t i = path_begin[flow]; i < path_begin[flow + 1]; ++i) {
      Link& link = links_[path_links[i]];
      if (link.stamp != stamp_) {
        link = {.left = capacities[path_links[i]], .stamp = stamp_};
        touched_.push_back(path_links[i]);
      }
      link.open_weight += weight;
    }
  }
}

void MaxMin::FixOneLayer(std::span<const std::uint32_t> path_begin,
                         std::span<const std::uint32_t> path_links,
                         std::span<const std::uint32_t> weights) {
  ++pass_;
  for (const std::uint32_t index : touched_) {
    Link& link = links_[index];
    if (link.open_weight == 0) continue;
    link.share = std::max(link.left, 0.0) / static_cast<double>(link.open_weight);
  }
  touched_.clear();
  tightest_.resize(open_flows_.size());
  for (std::size_t i = 0; i < open_flows_.size(); ++i) {
    const std::uint32_t begin = path_begin[open_flows_[i]];
    const std::uint32_t end = path_begin[open_flows_[i] + 1];
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t j = begin; j < end; ++j)
      least = std::min(least, links_[path_links[j]].share);
    tightest_[i] = least;
    for (std::uint32_t j = begin; j < end; ++j) {
      if (links_[path_links[j]].share > least) links_[path_links[j]].blocked = pass_;
    }
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < open_flows_.size(); ++i) {
    const std::uint32_t flow = open_flows_[i];
    const auto path = path_links.subspan(path_begin[flow], path_begin[flow + 1] - path_begin[flow]);
    const bool stays_open = std::all_of(path.begin(), path.end(), [&](std::uint32_t link) {
      return links_[link].blocked == pass_;
    });
    if (stays_open) {
      open_flows_[kept++] = flow;
      continue;
    }
    const std::uint32_t weight = weights.empty() ? 1 : weights[flow];
    rates_[flow] = tightest_[i] * weight;
    for (const std::uint32_t index : path) {
      links_[index].left -= rates_[flow];
      links_[index].open_weight -= weight;
      touched_.push_back(index);
    }
  }
  ESPALIER_CHECK(kept < open_flows_.size(), "pass={} open={}", pass_, kept);
  open_flows_.resize(kept);
}

std::span<const double> MaxMin::Solve(std::span<const double> capacities,
                                      std::span<const std::uint32_t> path_begin,
                                      std::span<const std::uint32_t> path_links, double unlimited,
                                      std::span<const std::uint32_t> weights) {
  const std::size_t flows = path_begin.empty() ? 0 : path_begin.size() - 1;
  rates_.assign(flows, unlimited);
  open_flows_.clear();
  touched_.clear();
  Open(capacities, path_begin, path_links, weights);
  while (!open_flows_.empty()) FixOneLayer(path_begin, path_links, weights);
  return rates_;
}

}  // namespace espalier::graph
