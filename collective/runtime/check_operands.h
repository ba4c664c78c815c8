#pragma once

#include "collective/program/collective_spec.h"
#include "collective/runtime/interpreter.h"
#include "common/base/result.h"

namespace espalier::runtime {

// What can be said of a call before anybody else is asked: buffers are there, are no larger than
// memory, and share memory only in place; the root is one of the ranks where the kind has one.
// Errors: kInvalidArgument.
Result<void> CheckOperands(program::CollectiveKind kind, const Operands& operands, int root,
                           int rank, int size);

}  // namespace espalier::runtime
