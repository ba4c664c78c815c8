#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collective/runtime/choice/cost_model.h"
#include "collective/runtime/choice/cost_table.h"
#include "common/base/result.h"
#include "deploy/cli/bench/bench_run.h"

namespace espalier::runtime {

struct ExplainedCandidate {
  std::string algorithm;
  Work work;
  double predicted_seconds = 0;
  double measured_seconds = 0;  // median, as in BenchRow
  double minimum_seconds = 0;   // minimum, as in BenchRow
  std::int64_t errors = 0;
};

struct ExplainedSize {
  std::size_t bytes = 0;
  std::vector<ExplainedCandidate> candidates;
  std::size_t chosen = 0;   // index of the candidate with the least predicted time
  std::size_t fastest = 0;  // index of the candidate with the least measured time
};

struct Explanation {
  Costs costs;
  std::vector<ExplainedSize> sizes;
};

// Runs every candidate for every size, and returns their predicted and measured times and which one
// the runtime chooses. Errors: as RunBench; kInvalidArgument for a collective that has only one
// algorithm, or for an invalid costs file.
Result<Explanation> ExplainBench(const BenchRequest& request);
// As above, with these costs instead of those of a file.
Result<Explanation> ExplainBench(const BenchRequest& request, const Costs& costs);

// Measures all candidates of all collectives that have several, between `ranks` processes over
// `medium`, and fits costs to the minima of the repetitions.
Result<Costs> FitBench(int ranks, Medium medium);

}  // namespace espalier::runtime
