#pragma once

#include <string>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// Runs the permutation of the main job, as the traffic of two jobs, under Espalier round after
// round, until SIGINT, SIGTERM or SIGHUP comes; these no longer end the process from then on. Tells
// on standard error where the page is and what else there is to look at. folder: of the daemons'
// logs.
// Errors: those of MakePermutation and lab::RunTraffic. The process must have one thread.
Result<void> KeepRunning(const lab::Lab& lab, const LabDaemons& daemons, const std::string& folder);

}  // namespace espalier::demo
