#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/files/limits.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// Reads job files (docs/formats.md). Every error has the form "FILE:LINE:COL: what (remedy)".

// Parses Espalier's own format: {"jobs": [{"id", "model", "start_seconds", "epochs", "phases":
// [{"name", "compute_seconds", "exchanges": [{"kind", "hosts": [...], "bytes": N}]}]}]}. A job of
// one phase of rings may have "compute_seconds" and "rings": [{"hosts", "bytes"}] in place of
// "phases".
Result<std::vector<Job>> ParseJobs(std::string_view text, std::string_view file_name,
                                   const fabric::Topology& topology);

// Reads one job file (".json" is Espalier's format), or all files of a folder that end in .txt or
// .json, by name. Errors also: kNotFound for a folder without job files, kAlreadyExists for a job
// id that is used twice.
Result<std::vector<Job>> ReadJobs(const std::string& path, const fabric::Topology& topology);

}  // namespace espalier::offline
