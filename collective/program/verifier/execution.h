#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/program/verifier/structure.h"

namespace espalier::program {

// One complete run of a program: in which order nodes ran, and which message each received.
struct Execution {
  std::vector<std::int32_t> order;        // nodes; each comes after those that it waited for
  std::vector<std::int32_t> received_of;  // by node: the node whose message it received, or -1
  int most_outstanding = 0;               // most messages in one connection at a time
  std::optional<Violation> violation;     // kDeadlock or kCountMismatch
};

// Runs the program on connections of `fifo_slots` slots, without data. One run decides whether all
// blocks finish and which message each receive takes, because these are the same in every
// interleaving: a block always performs the same steps, each step waits for conditions that stay
// true once they are, and a connection has one sender and one receiver. A step that receives and
// sends waits for both at once. Linear in steps and dependencies.
Execution Execute(const ProgramIndex& index, int fifo_slots);

}  // namespace espalier::program
