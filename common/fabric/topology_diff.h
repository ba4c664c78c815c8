#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/topology.h"

namespace espalier::fabric {

// One thing in which two topologies differ.
struct TopologyChange {
  enum class Kind : std::uint8_t {
    kAdded,
    kRemoved,
    kRecabled,  // a link leads elsewhere, or a port has another link
    kRate,      // a link has another rate
    kChanged,   // something else
  };
  bool is_link = false;  // false: a node
  Kind kind = Kind::kChanged;
  std::string id;      // in the later topology, if it is there
  std::string detail;  // "100 -> 200 Gbit/s", "leaf0 -- spine1 -> leaf0 -- spine2", "addresses"
  bool operator==(const TopologyChange&) const = default;
};
std::string_view TopologyChangeName(TopologyChange::Kind kind);  // "ADDED", ...

// What turns `before` into `after`: nodes, then links, each by id. Nodes and links are the same if
// their ids are. A removed and an added link that share a named port of a node are one re-cabled
// link. The order of nodes and links in the file, the ends of a link that are exchanged, the
// versions, and (unless with_states) the states of links do not count.
// O((nodes + links) log (nodes + links)).
std::vector<TopologyChange> DiffTopologies(const Topology& before, const Topology& after,
                                           bool with_states);

// Whether the link joins the same nodes in both topologies.
bool JoinsSameNodes(const Topology& before, const Link& link, const Topology& after,
                    const Link& same);

}  // namespace espalier::fabric
