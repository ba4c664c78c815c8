#pragma once

#include "tests/studies/lab/lab_study.h"

namespace espalier::demo {

// Compares plain ECMP, a controller that counts connections and one that counts what is busy, on
// training jobs whose connections live as long as the run.
RunStudy AddPhasesStudy(CLI::App& command);

}  // namespace espalier::demo
