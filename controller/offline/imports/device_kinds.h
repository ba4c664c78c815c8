#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/offline/imports/joined.h"

namespace espalier::imports {

// Patterns of the shell ("leaf*") for names of devices, compared as JoinSources does.
struct KindPatterns {
  std::vector<std::string> switches;
  std::vector<std::string> hosts;
};

// Decides which devices are switches and which hosts, where no file says it: by the patterns, then
// by words in names ("leaf", "host"), by names of ports ("swp1", "Ethernet4"), and by the cabling
// (one cable: a host; a neighbour of a host: a switch). Returns a sentence for each kind of
// inference, with the devices.
// Errors: kInvalidArgument for a pattern that contradicts a file or matches nothing, and with the
// names of devices that none of this decides.
Result<std::vector<std::string>> ChooseKinds(Joined& joined, const KindPatterns& patterns);

// Gives switches of the fabric a role where no file does: LEAF with hosts, SPINE one cable from a
// leaf, CORE beyond. Returns what is assumed, as above. O(devices + cables).
std::vector<std::string> ChooseRoles(Joined& joined);

}  // namespace espalier::imports
