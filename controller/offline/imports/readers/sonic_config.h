#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Reads the config_db.json of a SONiC switch: its name and role (DEVICE_METADATA), ports with
// alias, speed and addresses (PORT, INTERFACE, PORTCHANNEL_*), its loopbacks, and cables by
// DEVICE_NEIGHBOR and, where that lacks a port, by BGP_NEIGHBOR's addresses. ToRRouter is a leaf,
// LeafRouter a spine and SpineRouter a core switch here.
// The text of an older switch's minigraph.xml is read, too (sonic_minigraph.h).
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadSonicConfig(std::string_view text, std::string_view file);

}  // namespace espalier::imports
