#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/files/limits.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// Job files (docs/formats.md). Every error says "FILE:LINE:COL: what (remedy)".

// A job of floodns's traffic_pairs: columns src dst src_tor dst_tor start_time flow_size
// compute_time stage_index. Host number n is node "h<n - s>" for the s switches of the topology,
// ToR number t the t-th switch of role LEAF. The job's id and model are those of the file's name,
// "job_0-BLOOM.txt".
Result<Job> ParseFloodnsJob(std::string_view text, std::string_view file_name,
                            const fabric::Topology& topology);

// Our own: {"jobs": [{"id", "model", "start_seconds", "compute_seconds", "epochs",
// "rings": [{"hosts": [...], "bytes": N}]}]}.
Result<std::vector<Job>> ParseJobs(std::string_view text, std::string_view file_name,
                                   const fabric::Topology& topology);

// A file of one of both kinds (".json" is ours), or all that a folder holds, by name; job files
// of a folder are those that end in .txt or .json.
// Errors also: kNotFound for a folder without any, kAlreadyExists for a job id used twice.
Result<std::vector<Job>> ReadJobs(const std::string& path, const fabric::Topology& topology);

}  // namespace espalier::offline
