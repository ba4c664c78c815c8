#include "collective/forest/verifier/channel_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace espalier::forest {

using fabric::DirectedLink;
using fabric::NodeId;
using fabric::NodeKind;

namespace {

struct Capacity {
  NodeId from;
  NodeId to;
  std::int64_t bps = 0;
};

bool Before(const Capacity& x, const Capacity& y) {
  return std::pair(x.from, x.to) < std::pair(y.from, y.to);
}

// Lists the capacity of each ordered pair of nodes with links between them.
Result<std::vector<Capacity>> ListCapacities(const fabric::Topology& topology,
                                             std::span<const BitsPerSecond> available) {
  std::vector<Capacity> all;
  all.reserve(2 * topology.links().size());
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const fabric::Link& link = topology.links()[i];
    if (link.state != fabric::LinkState::kUp) continue;
    const auto rate = [&](bool forward) {
      const DirectedLink direction{fabric::LinkId(static_cast<std::int32_t>(i)), forward};
      return available.empty() ? link.rate.value : available[direction.Index()].value;
    };
    all.push_back({link.a, link.b, rate(true)});
    if (!link.directed) all.push_back({link.b, link.a, rate(false)});
  }
  std::sort(all.begin(), all.end(), Before);
  std::vector<Capacity> sums;
  for (const Capacity& capacity : all) {
    if (sums.empty() || Before(sums.back(), capacity)) {
      sums.push_back(capacity);
    } else if (__builtin_add_overflow(sums.back().bps, capacity.bps, &sums.back().bps)) {
      return Fail(ErrorCode::kResourceExhausted, "parallel links add up to more than 63 bits");
    }
  }
  return sums;
}

}  // namespace

Result<std::vector<std::int64_t>> ComputeChannelRates(const fabric::Topology& topology,
                                                      std::span<const Rank> rank_of_node,
                                                      std::span<const Channel> channels,
                                                      std::span<const BitsPerSecond> available) {
  auto listed = ListCapacities(topology, available);
  if (!listed) return Propagate(listed);
  const std::vector<Capacity>& capacities = *listed;
  std::vector<bool> used(capacities.size(), false);
  std::vector<std::int64_t> rates;
  rates.reserve(channels.size());
  for (const Channel& channel : channels) {
    for (const NodeId node : {channel.from, channel.to}) {
      if (node.Index() >= topology.nodes().size()) {
        return Fail(ErrorCode::kFailedPrecondition, "a channel ends at an unknown node");
      }
      if (topology.node(node).kind == NodeKind::kCompute && rank_of_node[node.Index()] == kNoRank) {
        return Fail(ErrorCode::kFailedPrecondition,
                    fmt::format("a path uses {}, a compute node that is not a rank",
                                topology.node(node).id));
      }
    }
    const Capacity key{channel.from, channel.to, 0};
    const auto found = std::lower_bound(capacities.begin(), capacities.end(), key, Before);
    const auto place = static_cast<std::size_t>(found - capacities.begin());
    const std::string& from = topology.node(channel.from).id;
    const std::string& to = topology.node(channel.to).id;
    if (found == capacities.end() || Before(key, *found) || found->bps <= 0) {
      return Fail(ErrorCode::kFailedPrecondition,
                  fmt::format("a path goes from {} to {}, where no link is UP", from, to));
    }
    if (used[place]) {
      return Fail(ErrorCode::kFailedPrecondition,
                  fmt::format("{} to {} is listed as two channels", from, to));
    }
    used[place] = true;
    rates.push_back(found->bps);
  }
  return rates;
}

}  // namespace espalier::forest
