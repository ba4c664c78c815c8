#include "controller/routing/fabric/unreached_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/fabric/path_predictor.h"

namespace espalier::controller {
using fabric::FlowTuple;
using fabric::NodeId;
using fabric::PathPredictor;
using fabric::PathTable;
using fabric::Topology;

namespace {

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

// Of the paths between two NICs; 0 if some hash on the way is not known.
std::size_t CountReached(PathPredictor& predictor, const FlowTuple& tuple, NodeId source,
                         NodeId destination, std::size_t path_count) {
  const auto ports = predictor.PortsOf(tuple, source, destination);
  if (!ports) return 0;
  std::vector<bool> is_reached(path_count);
  std::size_t reached = 0;
  for (std::uint32_t n = 0; n < fabric::kRocePortCount && reached < path_count; ++n) {
    const auto path = ports->Predict(static_cast<std::uint16_t>(fabric::kFirstRocePort + n));
    if (!path) return 0;
    if (is_reached[path->Index()]) continue;
    is_reached[path->Index()] = true;
    ++reached;
  }
  return reached;
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
    const std::size_t count = paths.Between(from, to).size();
    if (count < 2) continue;
    const FlowTuple tuple{.source = AddressOf(topology, source),
                          .destination = AddressOf(topology, destination)};
    const std::size_t reached = CountReached(*predictor, tuple, source, destination, count);
    if (reached == 0) continue;
    ++found.pairs;
    found.paths += count;
    found.unreached += count - reached;
    if (count - reached <= found.worst_unreached) continue;
    found.worst_unreached = count - reached;
    found.worst_paths = count;
    found.from = from;
    found.to = to;
  }
  return found;
}

std::string DescribeUnreached(const Topology& topology, const UnreachedPaths& found) {
  if (found.unreached == 0) return "";
  return fmt::format(
      "no source port takes {} of {} paths from {} to {} ({:.0f} % of all paths that were tried), "
      "as switches of several tiers choose alike (polarisation): let one tier hash with another "
      "function, or take other bits of the value (in SONiC ecmp_hash_offset); with a linear hash "
      "such as crc32, other seeds alone do not mend it",
      found.worst_unreached, found.worst_paths, topology.node(found.from).id,
      topology.node(found.to).id,
      100 * static_cast<double>(found.unreached) / static_cast<double>(found.paths));
}

}  // namespace espalier::controller
