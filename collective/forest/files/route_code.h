#pragma once

#include <cstddef>
#include <optional>

#include "collective/forest/files/byte_stream.h"
#include "collective/forest/model/forest.h"

namespace espalier::forest {

// Encodes a routing table, arcs by the node that they enter. Most routes end like the previous
// route (into the same node) and begin like the last route from the same node, so only the part
// between is written: 6 bytes for an arc between two boxes of GPUs.
void WriteRoutes(const RoutingTable& routes, ByteWriter& writer);

// Decodes the output of WriteRoutes. Returns none if the bytes do not have that form.
std::optional<RoutingTable> ReadRoutes(ByteReader& reader, std::size_t rank_count);

}  // namespace espalier::forest
