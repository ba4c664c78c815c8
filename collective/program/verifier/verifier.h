#pragma once

#include <cstdint>
#include <optional>

#include "collective/program/program.h"
#include "collective/program/verifier/structure.h"

namespace espalier::program {

struct VerifyOptions {
  int fifo_slots = 2;
  // The limit on touched items (ranges of chunks, entries of clocks) before it gives up.
  std::int64_t budget = std::int64_t{1} << 30;
};

struct Verdict {
  std::optional<Violation> violation;  // none: the program is correct
  // The other fields are set only if there is no violation.
  int needed_slots = 1;  // fewest slots without deadlock
  // Floating-point results are bit-identical on all ranks: each result is reduced in one order.
  bool same_bits = true;
  // Whether the collective defines its result (a custom one may not).
  bool has_postcondition = true;
  int root = kNoRoot;  // of a broadcast or reduce, found if the program does not name it
};

// Verifies a lowered program from any source. It proves, for every buffer placement that the
// program claims, that every legal interleaving on connections of fifo_slots or more slots ends,
// has no race, and leaves the collective's result in every output. It also proves that no chunk is
// read before it was written, that none is reduced twice into one result, that messages have the
// size of their receives, and that the input is not written out of place. Independent of the
// builder and its passes.
// Complexity: see structure.h, execution.h, dataflow.h and races.h.
Verdict Verify(const Program& program, const VerifyOptions& options = {});

// The cost of a program as Gloo's `algorithms.md` counts it: every connection carries at most one
// message per step, and a rank sends in the step after the last one for which the message has to
// wait.
struct Cost {
  std::int64_t steps = 0;              // communication steps until the last message has arrived
  std::int64_t most_chunks_sent = 0;   // by one rank; times the chunk size: bytes on the wire
  std::int64_t total_chunks_sent = 0;  // by all
  std::int64_t messages = 0;           // over all ranks
  // Of `steps`, those between hosts; see MeasureCost.
  std::int64_t cross_steps = 0;
};
// Precondition: Verify accepts the program.
// With `ranks_per_host`, `steps` are those of the chain with the most messages between hosts, where
// ranks 0, 1, ... belong to the first host.
Cost MeasureCost(const Program& program, int ranks_per_host = 0);

}  // namespace espalier::program
