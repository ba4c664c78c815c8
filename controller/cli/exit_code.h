#pragma once

#include "common/base/result.h"

namespace espalier::cli {

// Says on standard error what went wrong and returns the command's exit code: 2 for bad usage or
// input, 1 for what failed.
int Complain(const Error& error);

}  // namespace espalier::cli
