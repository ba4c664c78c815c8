#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/fabric/topology.h"
#include "controller/telemetry/exporters.h"

namespace espalier::telemetry {

// Which link a port of a switch stands for, by its name or its interface number: by the
// configuration's table, else a name by `a_port` or `b_port` of the topology file, and a number by
// the port's name, which some agents send with their counters, and `a_port` or `b_port` of the
// topology file. Numbers may change when a switch restarts, so those that names have told are then
// forgotten. Thread safety: none. Memory: O(ports), however many numbers an exporter invents.
class SwitchPorts {
 public:
  SwitchPorts(const fabric::Topology& topology, const std::vector<Exporter>& exporters);

  // The direction of the link that leaves the switch at this port; none: not known.
  std::optional<fabric::DirectedLink> Out(std::size_t exporter, std::uint32_t index) const;
  // The switch says that the port of this number has this name. Names that no link of the switch
  // has are ignored.
  void HandleName(std::size_t exporter, std::uint32_t index, std::string_view name);
  // The link of the port of this name, by the configuration's table, else by the topology file.
  struct Named {
    fabric::DirectedLink out;
    bool is_in_topology = false;
  };
  std::optional<Named> FindName(std::size_t exporter, std::string_view name) const;
  void HandleRestart(std::size_t exporter) { of_[exporter].learned.clear(); }

  // Ports between known nodes whose number is not known yet, as "leaf0--spine1>spine1".
  std::vector<std::string> Unknown(std::size_t exporter) const;

 private:
  struct Ports {
    std::unordered_map<std::uint32_t, fabric::DirectedLink> listed;   // by ifIndex
    std::unordered_map<std::uint32_t, fabric::DirectedLink> learned;  // from names
    std::map<std::string, Named, std::less<>> by_name;
  };

  const fabric::Topology& topology_;
  std::vector<fabric::NodeId> nodes_;
  std::vector<Ports> of_;  // by exporter
};

}  // namespace espalier::telemetry
