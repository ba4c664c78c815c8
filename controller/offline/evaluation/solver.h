#pragma once

#include <string>

#include "common/base/result.h"

namespace espalier::offline {

// Solves a linear or integer program (LP format) with cbc, the solver of COIN-OR (Debian:
// coinor-cbc), for at most two minutes; returns the solution that cbc writes.
// Errors: kUnsupported if cbc is not installed; kInternal if it fails.
Result<std::string> SolveWithCbc(const std::string& program);

}  // namespace espalier::offline
