#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/demo/main_job.h"
#include "deploy/demo/report.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// How the controller learns of the failure of a far link.
enum class Detection {
  kOperator,  // an operator reports it at once
  kFeed,      // the switches' telemetry: `espalier lab watch | espalier report links`
  kHosts,     // no report: agents' flows stop and probes stay unanswered
};

// Which far link fails: one from a spine (with pods, an aggregation switch) to a leaf, or one from
// a core to an aggregation switch.
enum class FarLink { kToLeaf, kFromCore };

// One job of rings over the leaves, with one ring fewer than spines. After a link failure every
// flow can still have a path alone, so the job loses only what the change itself costs.
Result<Experiment> MakeRingsWithRoom(const lab::LabLayout& layout, int epochs);

// Runs the experiment under Espalier and, in its middle, takes down the far link of this kind with
// the most flows downwards. The controller learns of it by `detection`. Link and
// controller state are restored at the end.
Result<FailureFigures> RunWithFailure(const lab::Lab& lab, const Experiment& experiment,
                                      std::uint64_t seed, const LabDaemons& daemons,
                                      Detection detection, FarLink kind = FarLink::kToLeaf);

}  // namespace espalier::demo
