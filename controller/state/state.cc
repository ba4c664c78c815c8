#include "controller/state/state.h"

namespace espalier::controller {

std::set<std::string> HostsWithNics(const fabric::Topology& topology,
                                    const fabric::PathTable& paths) {
  std::set<std::string> hosts;
  const auto& nodes = topology.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (paths.FindAttachment(fabric::NodeId(static_cast<std::int32_t>(i)))) {
      hosts.insert(fabric::HostOf(nodes[i]));
    }
  }
  return hosts;
}

std::string State::Via(const Flow& flow) const {
  std::vector<std::int32_t> indices;
  for (const Subflow& subflow : flow.subflows) {
    if (const auto path = flow_paths.PathOf(subflow)) indices.push_back(path->value());
  }
  return Via(flow, indices);
}

std::string State::Via(const Flow& flow, std::span<const std::int32_t> indices) const {
  return Via(flow.source_leaf, flow.destination_leaf, indices);
}

std::string State::Via(fabric::NodeId source_leaf, fabric::NodeId destination_leaf,
                       std::span<const std::int32_t> indices) const {
  if (indices.empty()) return {};
  const auto between = paths.Between(source_leaf, destination_leaf);
  std::string via;
  for (const std::int32_t index : indices) {
    if (!via.empty()) via += '+';
    via += fabric::ViaNames(topology, between[static_cast<std::size_t>(index)]);
  }
  return via;
}

std::vector<std::int64_t> State::CountPaths() const {
  std::vector<std::int64_t> counts(2 * topology.links().size());
  const auto count = [&](const fabric::Path& path) {
    for (const fabric::DirectedLink hop : path.hops) ++counts[hop.Index()];
  };
  for (const FlowSlot slot : flows.All()) {
    const Flow& flow = flows.At(slot);
    for (const Subflow& subflow : flow.subflows) {
      if (const auto path = flow_paths.PathOf(subflow)) count(PathsOf(flow)[path->Index()]);
    }
  }
  for (const auto& [name, edge] : edges.all()) count(PathOf(edge));
  return counts;
}

}  // namespace espalier::controller
