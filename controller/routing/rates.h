#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/max_min.h"
#include "controller/routing/assignment.h"

namespace espalier::controller {

// Predicts the rates at which flows will settle, by water-filling (graph::MaxMin) over the links of
// their paths and NICs (Commodity::source_link, destination_link). The weight of a subflow is its
// share. As it carries that part of the bytes, the flow is as fast as its slowest subflow, by rate
// over share.
//
// It is a workspace; results are valid until the next call. Thread safety: one thread.
class RatePredictor {
 public:
  explicit RatePredictor(FabricView& view) : view_(view) {}

  // Bits per second by commodity. A LOCAL commodity is limited by its NICs alone, or by the unit
  // rate if these are not given; an UNROUTABLE one gets 0. `base_loads` (by directed link, in 1 /
  // kLoadUnit of a flow; empty: none) take part as flows of such weights on single links: one flow
  // beside a base load of a whole flow gets half the link. O(subflows x hops x passes).
  std::span<const double> Predict(std::span<const Commodity> commodities,
                                  const Assignment& assignment,
                                  std::span<const std::int64_t> base_loads = {});
  // The same by subflow, for the last Predict: entry first[i] + s of the assignment.
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

// How good an assignment is for the jobs, by the fairness layers of Routing for Large ML Models
// (section 3.3). A job is as fast as its slowest flow; the slowest jobs are compared first, then
// the next slower ones. With phases, ties are broken by the slowest phases (section 8). Remaining
// ties are broken by the sum of the flows' rates.
struct Score {
  std::vector<double> job_rates;    // each job's slowest rate / weight, ascending
  std::vector<double> phase_rates;  // the same for each phase of each job; empty without phases
  double total_rate = 0;
};
Score ComputeScore(std::span<const Commodity> commodities, std::span<const double> rates,
                   std::span<const std::uint32_t> job_weights, bool with_phases);
// Rates that differ by at most a factor of 1e-9 are equal.
bool IsBetter(const Score& score, const Score& than);

}  // namespace espalier::controller
