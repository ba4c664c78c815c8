#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Reads a topology file of containerlab: `topology.links` with endpoints "leaf0:eth1" or maps of
// node and interface, and the kind and group (leaf, spine, core, server, host) of nodes. netlab
// writes such a file, too (clab.yml). Links to the machine itself are left out.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadContainerlabLinks(std::string_view text, std::string_view file);

}  // namespace espalier::imports
