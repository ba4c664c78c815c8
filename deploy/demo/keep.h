#pragma once

#include <string>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// Repeats the permutation of the main job, as the traffic of two jobs, under Espalier until SIGINT,
// SIGTERM or SIGHUP arrives; from then on these signals do not end the process. Prints on standard
// error where the page is and which commands show more. A host whose agent has ended sends over
// plain ECMP until the agent is started again. `folder` has the daemons' logs. Errors: those of
// MakePermutation and lab::RunTraffic. The process must have one thread.
Result<void> KeepRunning(const lab::Lab& lab, LabDaemons& daemons, const std::string& folder);

}  // namespace espalier::demo
