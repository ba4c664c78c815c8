#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "collective/program/program.h"

namespace espalier::runtime {

// The work that determines a call's time: the rounds of the longest chain of waiting ranks, and
// the messages and bytes of the busiest rank. Where ranks share cores, one core's part of all
// ranks' work counts if it is more.
struct Work {
  double rounds = 0;    // communication steps, one after another
  double messages = 0;  // sent or received, whichever is more
  double bytes = 0;     // sent or received, whichever is more
  double reduced_bytes = 0;
};

// The costs, in seconds, of one unit of each quantity in Work: the alpha-beta-gamma model with two
// alphas. A round is latency, during which a rank waits. A message is processor time, which a rank
// pays for each of several messages that it sends at once.
struct Costs {
  double round = 0;
  double message = 0;
  double byte = 0;
  double reduced_byte = 0;
  // Ranks that can work at the same time: the cores of the machine that they share. 0: all ranks.
  int lanes = 0;
};

double Predict(const Costs& costs, const Work& work);

struct CostSample {
  Work work;
  double seconds = 0;
};

// Fits non-negative costs that minimise the sum of (predicted - measured)^2 / (predicted x
// measured) over all samples. A prediction of twice the time is thus as wrong as one of half, at
// every size. A cost on which no sample depends is 0. Deterministic: the same samples in the same
// order give bit-identical results. Samples without time are ignored. Complexity: O(samples).
Costs FitCosts(std::span<const CostSample> samples, int lanes);

// The work of a verified program, in chunks of its data.
struct ProgramWork {
  double rounds = 0;
  struct Amount {
    double messages = 0;
    double chunks = 0;  // sent or received
    double reduced_chunks = 0;
  };
  Amount busiest;  // each maximum over all ranks
  Amount mean;     // over all ranks
  double ranks = 1;
  double all_chunks = 1;  // chunks of the call's whole data
  double mean_count = 1;  // chunks per message
};
ProgramWork MeasureWork(const program::Program& program);

// The work of a program whose ranks 0, 1, ... share the first host, and so on. Between hosts,
// chunks are those of the busiest host, whose ranks share its link.
struct HostsWork {
  ProgramWork within;
  ProgramWork between;
};
HostsWork MeasureWork(const program::Program& program, int ranks_per_host);

// Scales a program's work to `bytes` bytes of data (all ranks together if each has a part), in
// messages of message_bytes on average. Larger data is cut into tiles that pass through the rounds
// as a pipeline.
Work ScaleWork(const ProgramWork& work, std::size_t bytes, std::size_t message_bytes, int lanes);

}  // namespace espalier::runtime
