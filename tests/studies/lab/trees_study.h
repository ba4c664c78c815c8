#pragma once

#include "tests/studies/lab/lab_study.h"

namespace espalier::demo {

// Compares an all-reduce over 16 hosts as a ring on plain ECMP and on the controller's forest,
// inline and offloaded, before and after a spine fails, and once it is back.
RunStudy AddTreesStudy(CLI::App& command);

}  // namespace espalier::demo
