#pragma once

#include <string>

#include "common/base/result.h"
#include "deploy/demo/measured_run.h"
#include "deploy/lab/lab_layout.h"

namespace espalier::demo {

// What the controller counts as load.
enum class Scheme {
  kEcmp,         // no controller
  kConnections,  // every open connection
  kEspalier,     // what is busy, phase by phase
};
inline constexpr Scheme kSchemes[] = {Scheme::kEcmp, Scheme::kConnections, Scheme::kEspalier};

// "ecmp", "connections" or "espalier".
std::string NameOf(Scheme scheme);
// What the scheme adds to the controller's configuration.
std::string ControllerFields(Scheme scheme);

struct PhasesShape {
  int jobs = 2;
  int queue_pairs = 1;
  int jitter_percent = 1;
  int iterations = 12;

  // The shape with fewer iterations for schemes that have no phases to learn, as a run with
  // collisions takes longer.
  PhasesShape For(Scheme scheme) const;
};

// The workload "phases": training jobs on connections that live as long as the run
// (deploy/lab/workload/phased_jobs.h). Every phase fits the fabric with one flow on each link in
// every overlap of the jobs, but all connections together do not. The ideal is the time that a
// burst needs alone on its links, with its headers and with what a link's queue lets pass at once.
// Errors: kInvalidArgument for fabrics in which that is not so, or which have no link rate.
Result<Experiment> MakePhases(const lab::LabLayout& layout, const PhasesShape& shape);

}  // namespace espalier::demo
