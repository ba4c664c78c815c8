#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Discovery by probes knows addresses, but no names, ports and rates of switches. These come from
// files in which the same addresses stand.

// Reads what GET /api/v1/topology/discovery of the controller answers. Names of switches are made
// of their addresses (Cabling::has_made_up_names). What is missing or contradicts itself is a
// remark. Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadDiscovery(std::string_view text, std::string_view file);

// What files say of the names of switches: by addresses, and by the ports of hosts that lead to
// them, as LLDP on hosts knows them.
struct SwitchNames {
  std::map<IpAddress, std::set<std::string>> by_address;
  std::map<std::pair<std::string, std::string>, std::set<std::string>> by_host_port;
};
SwitchNames NamesIn(std::span<const Cabling> sources);  // whose names are not made up
SwitchNames NamesIn(const fabric::Topology& topology);

// Renames the switches of `found`. Switches that get one name become one. Adds a remark for each
// that would get several names; it keeps its own.
void AdoptNames(Cabling& found, const SwitchNames& names);

// Completes a topology that was discovered by what only a given one can know: ids and ports of
// links, rates, the insides of hosts, hashes. Nodes are the same if their ids or addresses are,
// links if the address of an end is. O((nodes + links) log).
fabric::TopologySpec CompleteFrom(const fabric::TopologySpec& found, const fabric::Topology& given);

}  // namespace espalier::imports
