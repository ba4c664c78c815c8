#pragma once

#include <cstdint>
#include <optional>

#include "collective/program/program.h"
#include "collective/program/verifier/structure.h"

namespace espalier::program {

struct VerifyOptions {
  int fifo_slots = 2;
  // What may be touched (ranges of chunks, entries of clocks) before it gives up.
  std::int64_t budget = std::int64_t{1} << 30;
};

struct Verdict {
  std::optional<Violation> violation;  // none: the program is right
  // The rest only where there is none.
  int needed_slots = 1;  // the fewest slots with which it does not deadlock
  // Floating point gives the same bits on every rank: each result is reduced in one order.
  bool same_bits = true;
  // Whether the collective says what is to come out (a custom one may not).
  bool has_postcondition = true;
  int root = kNoRoot;  // of a broadcast or reduce, also where the program does not name it
};

// Verifies a lowered program, whoever made it: that every legal interleaving on connections of
// fifo_slots slots (and of more) ends, without a race, and leaves what the collective promises in
// every output, for every placement that the program claims; no chunk is read before it was
// written, none is reduced twice into one result, messages have the size of their receives, and
// out of place the input is not written. Independent of the builder and its passes.
// Complexity: structure.h, execution.h, dataflow.h, races.h.
Verdict Verify(const Program& program, const VerifyOptions& options = {});

// What a program costs, as 002 (Gloo's algorithms) counts: every connection carries at most one
// message a step, and a rank sends in the step after all that the message has to wait for.
struct Cost {
  std::int64_t steps = 0;              // of communication, until the last message has come
  std::int64_t most_chunks_sent = 0;   // by one rank; bytes on the wire = this x the chunk's size
  std::int64_t total_chunks_sent = 0;  // by all
  std::int64_t messages = 0;           // of all ranks
};
// Of a program that Verify accepts.
Cost MeasureCost(const Program& program);

}  // namespace espalier::program
