#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/demo/main_job.h"
#include "deploy/demo/report.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// How the controller comes to know that a far link died.
enum class Detection {
  kOperator,  // somebody says so at once
  kFeed,      // the switches' telemetry: `espalier lab watch | espalier report links`
  kHosts,     // nobody says anything: agents' flows stand still, and probes go unanswered
};

// One job of rings over the leaves, one ring for each spine but one: where a link dies there is
// still a path alone for every flow, so that what the job loses is what the change itself costs.
Result<Experiment> MakeRingsWithRoom(const lab::LabLayout& plan, int epochs);

// Runs the experiment under Espalier, and in its middle takes down the link with most flows from
// a spine to their destination's leaf, of which the controller hears by `detection`. Both are
// restored at the end.
Result<FailureFigures> RunWithFailure(const lab::Lab& lab, const Experiment& experiment,
                                      std::uint64_t seed, const LabDaemons& daemons,
                                      Detection detection);

}  // namespace espalier::demo
