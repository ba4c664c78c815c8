#pragma once

#include <cstdint>
#include <string>

#include "deploy/simulation/run.h"

namespace espalier::cli {

// The result of `espalier simulate cluster` as one JSON object (docs/formats.md, "Scenarios").
std::string FormatRun(const simulation::Scenario& scenario, std::uint64_t seed,
                      const simulation::RunResult& result);

// Prints the same for people on standard output: a table of jobs, the figures, and the events, of
// which many of one kind in a row are one line.
void PrintRun(const simulation::Scenario& scenario, const simulation::RunResult& result);

}  // namespace espalier::cli
