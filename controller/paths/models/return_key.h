#pragma once

#include <cstdint>

#include "common/fabric/ecmp/path_map.h"

namespace espalier::controller {

// The key of what a connection of this key gets back at its source port. It leaves from the far
// end's fixed port, the destination port of `key`.
inline fabric::PortKey ReturnKeyOf(const fabric::PortKey& key, std::uint16_t source_port) {
  return {.source = key.destination,
          .destination = key.source,
          .protocol = key.protocol,
          .destination_port = source_port,
          .destination_qpn = 0};
}

}  // namespace espalier::controller
