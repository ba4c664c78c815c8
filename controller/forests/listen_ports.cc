#include "controller/forests/listen_ports.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "common/base/check.h"

namespace espalier::controller {

std::vector<std::uint16_t> ChooseListenPorts(const fabric::Topology& topology,
                                             const TreeJobTable& jobs, const JobSpec& spec) {
  std::map<std::string_view, std::set<std::uint16_t>> taken;
  const auto take = [&](const TreeJob& job, const std::vector<std::uint16_t>& ports) {
    for (std::size_t rank = 0; rank < std::min(ports.size(), job.ranks.size()); ++rank) {
      taken[fabric::HostOf(topology.node(job.ranks[rank]))].insert(ports[rank]);
    }
  };
  for (const auto& [name, other] : jobs) {
    if (name == spec.name) continue;
    take(other, other.listen_ports);
    if (other.active) take(other, other.active->listen_ports);
    if (other.next) take(other, other.next->listen_ports);
  }
  std::vector<std::uint16_t> ports;
  for (const std::string& rank : spec.ranks) {
    const auto node = topology.FindNode(rank);
    ESPALIER_CHECK(node.has_value());
    std::uint16_t port = wire::kRoceV2Port;
    while (!taken[fabric::HostOf(topology.node(*node))].insert(port).second) ++port;
    ports.push_back(port);
  }
  return ports;
}

}  // namespace espalier::controller
