#pragma once

#include <cstdint>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// Draws the jobs of a scenario as section 5.1 of Routing for Large ML Models says: each is BLOOM,
// GPT-3 or LLaMA2-70B at random, runs on hosts of its own at random (sixteen of a ToR together, as
// in the authors' files), begins within 10 seconds and only reduces gradients, in rings of
// `ring_size` (2 to 1,000). The first is BLOOM, whose times figure 4 shows. Models that do not fit
// onto the fabric are drawn again. Deterministic by seed. Errors: kFailedPrecondition if so many
// jobs were not found to fit; those of MakeModelJobs.
Result<std::vector<Job>> DrawJobs(const fabric::Topology& topology, int jobs, int ring_size,
                                  std::uint64_t seed);

}  // namespace espalier::offline
