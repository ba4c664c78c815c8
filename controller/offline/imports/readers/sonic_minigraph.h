#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// What a type of SONiC's configuration says. SONiC counts tiers from the leaves: its LeafRouter is
// above the ToRRouter.
struct SonicType {
  DeviceKind kind = DeviceKind::kUnknown;
  fabric::SwitchRole role = fabric::SwitchRole::kNone;
};
SonicType SonicTypeOf(std::string_view type);

// Reads the minigraph.xml of a SONiC switch: its cables (DeviceInterfaceLinks) with their rates,
// the types of devices, its loopbacks, and the addresses of its ports and, by BGP sessions, of
// their far ends. Its names of ports are the aliases of config_db.json.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadSonicMinigraph(std::string_view text, std::string_view file);

}  // namespace espalier::imports
