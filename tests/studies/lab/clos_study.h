#pragma once

#include "tests/studies/lab/lab_study.h"

namespace espalier::demo {

// Runs a permutation and ring jobs on fabrics of three tiers, or of hosts with several NICs, with
// plain ECMP and with Espalier, and takes links down in the middle.
RunStudy AddClosStudy(CLI::App& command);

}  // namespace espalier::demo
