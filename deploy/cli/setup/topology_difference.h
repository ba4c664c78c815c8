#pragma once

#include "common/fabric/topology.h"
#include "common/files/json_writer.h"

namespace espalier::cli {

// Writes the member "changes": what turns one topology into another, states included.
void WriteTopologyDifference(io::JsonWriter& json, const fabric::Topology& before,
                             const fabric::Topology& after);

// Prints the same as a table, or that nothing differs.
void PrintTopologyDifference(const fabric::Topology& before, const fabric::Topology& after);

}  // namespace espalier::cli
