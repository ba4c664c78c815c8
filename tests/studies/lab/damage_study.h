#pragma once

#include "tests/studies/lab/lab_study.h"

namespace espalier::demo {

// Measures what a damaged link, and flows that are not steered, do to a permutation of flows, under
// plain ECMP and under Espalier, with one or several connections for each flow.
RunStudy AddDamageStudy(CLI::App& command);

}  // namespace espalier::demo
