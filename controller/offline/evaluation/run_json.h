#pragma once

#include <span>

#include "common/files/json_writer.h"
#include "controller/offline/evaluation/schemes.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// How much is written of a run: everything, or no single epochs, events and flows.
enum class RunDetail { kAll, kSummary };

// Writes one run of these jobs as an object.
void WriteRun(io::JsonWriter& json, const SchemeRun& run, std::span<const Job> jobs,
              RunDetail detail);

}  // namespace espalier::offline
