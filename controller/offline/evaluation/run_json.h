#pragma once

#include <span>

#include "common/files/json.h"
#include "controller/offline/evaluation/schemes.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// What is told of a run: all that is known, or without the single epochs, events and flows.
enum class RunDetail { kAll, kSummary };

// Writes one run of these jobs as an object.
void WriteRun(io::JsonWriter& json, const SchemeRun& run, std::span<const Job> jobs,
              RunDetail detail);

}  // namespace espalier::offline
