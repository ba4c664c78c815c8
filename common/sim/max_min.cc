#include "common/sim/max_min.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace espalier::sim {
namespace {

// A link with what it has left for the flows on it that are not fixed yet.
struct Link {
  double left = 0;
  std::uint32_t open_flows = 0;
  std::uint32_t first_flow = 0;  // into the flows by link

  double Share() const { return std::max(left, 0.0) / open_flows; }
};

}  // namespace

std::vector<double> ComputeMaxMinRates(std::span<const double> capacities,
                                       std::span<const std::span<const std::uint32_t>> paths,
                                       double unlimited) {
  std::vector<Link> links(capacities.size() + 1);
  for (const auto& path : paths) {
    for (const std::uint32_t link : path) ++links[link].open_flows;
  }
  std::uint32_t total = 0;
  for (std::size_t i = 0; i < links.size(); ++i) {
    links[i].first_flow = total;
    total += links[i].open_flows;
    if (i < capacities.size()) links[i].left = capacities[i];
  }
  std::vector<std::uint32_t> flows_by_link(total);
  std::vector<std::uint32_t> filled(links.size());
  for (std::uint32_t flow = 0; flow < paths.size(); ++flow) {
    for (const std::uint32_t link : paths[flow]) {
      flows_by_link[links[link].first_flow + filled[link]++] = flow;
    }
  }

  // Shares only grow as flows are fixed at the least one, so an entry that is out of date is too
  // low: it is put back with the share of today.
  using Entry = std::pair<double, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  for (std::uint32_t i = 0; i < capacities.size(); ++i) {
    if (links[i].open_flows > 0) queue.emplace(links[i].Share(), i);
  }
  std::vector<double> rates(paths.size(), unlimited);
  std::vector<bool> is_fixed(paths.size(), false);
  while (!queue.empty()) {
    const auto [share, index] = queue.top();
    queue.pop();
    if (links[index].open_flows == 0) continue;
    const double current = links[index].Share();
    if (current > share) {
      queue.emplace(current, index);
      continue;
    }
    for (std::uint32_t i = links[index].first_flow; i < links[index + 1].first_flow; ++i) {
      const std::uint32_t flow = flows_by_link[i];
      if (is_fixed[flow]) continue;
      is_fixed[flow] = true;
      rates[flow] = current;
      for (const std::uint32_t link : paths[flow]) {
        links[link].left -= current;
        --links[link].open_flows;
      }
    }
  }
  return rates;
}

}  // namespace espalier::sim
