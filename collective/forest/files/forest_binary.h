#pragma once

#include <string>
#include <string_view>

#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// The compact form of a plan (docs/formats.md): names once, arcs by the node that they enter,
// routes by what they share with their neighbours, and every parent as its place among the arcs
// into the child, in as many bits as there are such arcs. 21 MB for 4,096 A100 GPUs.
// The plan must be one that the verifier has passed.
inline constexpr std::string_view kForestMagic = "ESPFRST1";
std::string EncodeForest(const fabric::Topology& topology, const TreeSchedule& plan);

// Reads it back. What is not wrong in itself is left to the verifier.
// Errors: kInvalidArgument "NAME:byte OFFSET: what" for anything that EncodeForest does not
// write, and for nodes that the topology does not have. Memory: at most 16 bytes for each bit of
// the file.
Result<TreeSchedule> DecodeForest(std::string_view bytes, std::string_view name,
                                  const fabric::Topology& topology);

}  // namespace espalier::forest
