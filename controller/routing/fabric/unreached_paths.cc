#include "controller/routing/fabric/unreached_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "common/fabric/ecmp/path_predictor.h"

namespace espalier::controller {
using fabric::FlowTuple;
using fabric::NodeId;
using fabric::PathPredictor;
using fabric::PathTable;
using fabric::Topology;

namespace {

constexpr std::size_t kMostNamed = 4;  // paths

// One addressed NIC of each leaf, by leaf.
std::vector<std::pair<NodeId, NodeId>> NicOfEachLeaf(const Topology& topology,
                                                     const PathTable& paths) {
  std::map<NodeId, NodeId> nics;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    if (!topology.IsFlowEndpoint(node)) continue;
    if (const auto attachment = paths.FindAttachment(node)) nics.emplace(attachment->leaf, node);
  }
  return {nics.begin(), nics.end()};
}

IpAddress AddressOf(const Topology& topology, NodeId nic) {
  const auto& addresses = topology.node(nic).addresses;
  if (!addresses.empty()) return addresses.front();
  // Any will do, if it differs from those of other NICs.
  return *IpAddress::Parse(fmt::format("10.{}.{}.1", nic.value() / 256 % 256, nic.value() % 256));
}

// Which paths between two NICs some port takes; empty if some hash on the way is not known.
std::vector<bool> FindReached(PathPredictor& predictor, const FlowTuple& tuple, NodeId source,
                              NodeId destination, std::size_t path_count) {
  const auto ports = predictor.PortsOf(tuple, source, destination);
  if (!ports) return {};
  std::vector<bool> is_reached(path_count);
  std::size_t reached = 0;
  for (std::uint32_t n = 0; n < fabric::kRocePortCount && reached < path_count; ++n) {
    const auto path = ports->Predict(static_cast<std::uint16_t>(fabric::kFirstRocePort + n));
    if (!path) return {};
    if (is_reached[path->Index()]) continue;
    is_reached[path->Index()] = true;
    ++reached;
  }
  return is_reached;
}

}  // namespace

Result<UnreachedPaths> FindUnreachedPaths(const Topology& topology, PathTable& paths,
                                          std::size_t most_pairs) {
  Result<PathPredictor> predictor = PathPredictor::Build(topology, paths);
  if (!predictor) return Propagate(predictor);
  const auto nics = NicOfEachLeaf(topology, paths);
  UnreachedPaths found;
  const std::size_t all = nics.size() * nics.size();
  const std::size_t step = all / std::max<std::size_t>(2 * most_pairs, 1) | 1;  // odd
  for (std::size_t n = 0; n < all && found.pairs < most_pairs; n += step) {
    const auto& [from, source] = nics[n / nics.size()];
    const auto& [to, destination] = nics[n % nics.size()];
    if (from == to) continue;
    const auto between = paths.Between(from, to);
    const std::size_t count = between.size();
    if (count < 2) continue;
    const FlowTuple tuple{.source = AddressOf(topology, source),
                          .destination = AddressOf(topology, destination)};
    const std::vector<bool> is_reached = FindReached(*predictor, tuple, source, destination, count);
    if (is_reached.empty()) continue;
    const auto reached = static_cast<std::size_t>(std::ranges::count(is_reached, true));
    ++found.pairs;
    found.paths += count;
    found.unreached += count - reached;
    if (count - reached <= found.worst_unreached) continue;
    found.worst_unreached = count - reached;
    found.worst_paths = count;
    found.from = from;
    found.to = to;
    found.worst_via.clear();
    for (std::size_t path = 0; path < count && found.worst_via.size() < kMostNamed; ++path) {
      if (!is_reached[path]) found.worst_via.push_back(fabric::ViaNames(topology, between[path]));
    }
  }
  return found;
}

std::string DescribeUnreached(const Topology& topology, const UnreachedPaths& found) {
  if (found.unreached == 0) return "";
  return fmt::format(
      "no source port takes {} of {} paths from {} to {} (via {}{}; {:.0f} % of all paths that "
      "were tried), as switches of several tiers choose alike (polarisation): let one tier hash "
      "with another function, or take other bits of the value (in SONiC ecmp_hash_offset); with a "
      "linear hash such as crc32, other seeds alone do not mend it",
      found.worst_unreached, found.worst_paths, topology.node(found.from).id,
      topology.node(found.to).id, fmt::join(found.worst_via, " or "),
      found.worst_unreached > found.worst_via.size() ? " ..." : "",
      100 * static_cast<double>(found.unreached) / static_cast<double>(found.paths));
}

}  // namespace espalier::controller
