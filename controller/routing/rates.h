#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/max_min.h"
#include "controller/routing/assignment.h"

namespace espalier::controller {

// The rates that flows will settle at, predicted by water-filling (graph::MaxMin) over the links
// of their paths and their NICs (Commodity::source_link, destination_link). A way of a flow split
// k ways counts as 1/k of a flow wherever it meets others; as each way carries 1/k of the bytes,
// the flow is as fast as k times its slowest way.
//
// A workspace; results are valid until the next call. Thread safety: one thread.
class RatePredictor {
 public:
  explicit RatePredictor(FabricView& view) : view_(view) {}

  // Bits a second by commodity. LOCAL ones are bound by their NICs alone, by the unit rate where
  // those are not given; UNROUTABLE ones get 0. O(ways x hops x passes).
  std::span<const double> Predict(std::span<const Commodity> commodities,
                                  const Assignment& assignment);
  // The same by way, of the last Predict: entry first[i] + w of the assignment.
  std::span<const double> subflow_rates() const { return subflow_rates_; }

 private:
  FabricView& view_;
  graph::MaxMin max_min_;
  std::vector<std::uint32_t> path_begin_;
  std::vector<std::uint32_t> path_links_;
  std::vector<std::uint32_t> weights_;
  std::vector<double> subflow_rates_;
  std::vector<double> rates_;
};

// How good an assignment is for the jobs, by the two-layer max-min fairness of Routing for Large
// ML Models (section 3.3): a job is as fast as its slowest flow; the slowest job counts first,
// then the next slower, ... With phases, equals are told apart by the slowest phases (section 8).
// What is still equal is told apart by the sum of the flows' rates.
struct Score {
  std::vector<double> job_rates;    // slowest rate / weight by job, ascending
  std::vector<double> phase_rates;  // the same by phase of a job; empty unless asked for
  double total_rate = 0;
};
Score ComputeScore(std::span<const Commodity> commodities, std::span<const double> rates,
                   std::span<const std::uint32_t> job_weights, bool with_phases);
// Rates that agree to 1e-9 are equal.
bool IsBetter(const Score& score, const Score& than);

}  // namespace espalier::controller
