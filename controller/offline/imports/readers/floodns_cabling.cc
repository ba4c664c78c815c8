#include "controller/offline/imports/readers/floodns_cabling.h"

#include <utility>

#include "controller/offline/files/floodns_topology.h"

namespace espalier::imports {

Result<Cabling> ReadFloodnsCabling(std::string_view text, std::string_view file) {
  auto spec = offline::ParseFloodnsTopology(text, file);
  if (!spec) return Propagate(spec);
  Cabling cabling;
  cabling.file = file;
  for (const fabric::Node& node : spec->nodes) {
    DeviceFact& fact = cabling.devices.emplace_back();
    fact.name = node.id;
    const bool is_switch = node.kind == fabric::NodeKind::kSwitch;
    fact.kind = is_switch ? DeviceKind::kSwitch : DeviceKind::kCompute;
    fact.role = node.role;
    fact.host = node.host;
  }
  for (const fabric::Link& link : spec->links) {
    Cable& cable = cabling.cables.emplace_back();
    cable.a.device = spec->nodes[link.a.Index()].id;
    cable.b.device = spec->nodes[link.b.Index()].id;
    cable.rate = link.rate;
  }
  return cabling;
}

}  // namespace espalier::imports
