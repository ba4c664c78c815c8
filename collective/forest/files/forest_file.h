#pragma once

#include <string>

#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// Reads a forest file in either format, which its first bytes tell.
// Errors: those of io::ReadFile, ParseForestJson and DecodeForest.
Result<TreeSchedule> ReadForestFile(const std::string& path, const fabric::Topology& topology);

}  // namespace espalier::forest
