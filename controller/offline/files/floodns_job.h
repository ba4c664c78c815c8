#pragma once

#include <string_view>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// Parses a job of floodns's traffic_pairs: columns src dst src_tor dst_tor start_time flow_size
// compute_time stage_index. Host number n is node "h<n - s>" for a topology of s switches, and ToR
// number t is the t-th switch of role LEAF. The file's name gives the job's id and model,
// "job_0-BLOOM.txt". Errors: "FILE:LINE:COL: what (remedy)".
Result<Job> ParseFloodnsJob(std::string_view text, std::string_view file_name,
                            const fabric::Topology& topology);

}  // namespace espalier::offline
