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
  double measured_seconds = 0;  // as BenchRow has them: median and minimum
  double minimum_seconds = 0;
  std::int64_t errors = 0;
};

struct ExplainedSize {
  std::size_t bytes = 0;
  std::vector<ExplainedCandidate> candidates;
  std::size_t chosen = 0;   // of the candidates, by prediction
  std::size_t fastest = 0;  // by measurement
};

struct Explanation {
  Costs costs;
  std::vector<ExplainedSize> sizes;
};

// Runs every candidate for every size, and says which one the runtime chooses and why.
// Errors: as RunBench; kInvalidArgument for a collective without a choice, or a costs file that is
// none.
Result<Explanation> ExplainBench(const BenchRequest& request);
// The same by costs that are no file's.
Result<Explanation> ExplainBench(const BenchRequest& request, const Costs& costs);

// Measures all candidates of all collectives that have a choice, between so many ranks over that
// medium, and fits costs to the minima of the repetitions.
Result<Costs> FitBench(int ranks, Medium medium);

}  // namespace espalier::runtime
