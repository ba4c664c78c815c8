#include "controller/api/actions/sprayed_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

namespace espalier::controller {
namespace {

using fabric::DirectedLink;
using fabric::NodeId;

// The NICs with addresses, by their own names and by those of their hosts.
class NicNames {
 public:
  explicit NicNames(const fabric::Topology& topology) {
    for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
      const NodeId id(static_cast<std::int32_t>(i));
      const fabric::Node& node = topology.node(id);
      if (node.kind == fabric::NodeKind::kSwitch || node.addresses.empty()) continue;
      nics_[node.id].push_back(id);
      if (fabric::HostOf(node) != node.id) nics_[fabric::HostOf(node)].push_back(id);
    }
  }

  Result<NodeId> Find(const std::string& name) const {
    const auto found = nics_.find(name);
    if (found == nics_.end()) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("there is no NIC or host \"{}\" with an address", name));
    }
    if (found->second.size() == 1) return found->second.front();
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("host \"{}\" has {} NICs (name one of them)", name, found->second.size()));
  }

 private:
  std::map<std::string, std::vector<NodeId>> nics_;
};

}  // namespace

double WeightOf(const State& state, const fabric::Path& path) {
  double least = 1;
  for (const DirectedLink hop : path.hops) {
    const auto capacity = static_cast<double>(state.view.capacities()[hop.Index()]);
    const double load = static_cast<double>(state.flow_paths.assigner().LoadOf(hop.Index())) /
                        static_cast<double>(kLoadUnit);
    least = std::min(least, capacity / static_cast<double>(state.view.unit_bps()) / (1 + load));
  }
  return least;
}

Result<std::vector<LinkLoadReport::Entry>> SpreadOverPaths(
    const State& state, std::span<const SprayedTraffic> traffic) {
  const NicNames nics(state.topology);
  std::map<std::pair<NodeId, NodeId>, double> by_leaves;
  for (const SprayedTraffic& each : traffic) {
    const auto source = nics.Find(each.source);
    if (!source) return tl::unexpected(source.error());
    const auto destination = nics.Find(each.destination);
    if (!destination) return tl::unexpected(destination.error());
    if (!std::isfinite(each.bps) || each.bps < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} cannot send {} bit/s (report bits per second, from 0)",
                              each.source, each.bps));
    }
    const auto from = state.paths.FindAttachment(*source);
    const auto to = state.paths.FindAttachment(*destination);
    if (from && to) by_leaves[{from->leaf, to->leaf}] += each.bps;
  }
  std::vector<double> loads(2 * state.topology.links().size());
  for (const auto& [leaves, bps] : by_leaves) {
    const auto paths = state.paths.Between(leaves.first, leaves.second);
    std::vector<double> weights;
    double sum = 0;
    for (const fabric::Path& path : paths) sum += weights.emplace_back(WeightOf(state, path));
    for (std::size_t i = 0; i < paths.size() && sum > 0; ++i) {
      for (const DirectedLink hop : paths[i].hops) loads[hop.Index()] += bps * weights[i] / sum;
    }
  }
  std::vector<LinkLoadReport::Entry> entries;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (loads[i] <= 0) continue;
    const auto link = DirectedLink::FromIndex(i);
    const auto rate = static_cast<double>(state.topology.link(link.link).rate.value);
    entries.push_back({link, std::min(loads[i], rate)});
  }
  return entries;
}

}  // namespace espalier::controller
