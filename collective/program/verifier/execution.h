#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/program/verifier/structure.h"

namespace espalier::program {

// One complete run of a program: who ran when, and who received what from whom.
struct Execution {
  std::vector<std::int32_t> order;        // nodes; everything comes after what it waited for
  std::vector<std::int32_t> received_of;  // by node: the node whose message it received, or -1
  int most_outstanding = 0;               // messages in one connection at a time
  std::optional<Violation> violation;     // kDeadlock or kCountMismatch
};

// Runs the program on connections of `fifo_slots` slots, without data. A block always does the
// same steps, each waits for conditions that stay true once they are, and a connection has one
// sender and one receiver: so whether all blocks get to their end, and which message each receive
// gets, is the same in every interleaving, and one run decides. A step that receives and sends
// waits for both at once. Linear in steps and dependencies.
Execution Execute(const ProgramIndex& index, int fifo_slots);

}  // namespace espalier::program
