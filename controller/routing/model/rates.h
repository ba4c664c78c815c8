#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/graph/max_min.h"
#include "controller/routing/model/assignment.h"

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

  // What a commodity is believed to send at most, and how much it counts beside others.
  struct Demand {
    double bps = std::numeric_limits<double>::infinity();  // 0: it takes no part
    double weight = 1;                                     // 0 to 1
  };
  // As Predict, if commodities send no more than their demands (by commodity). Then returns for
  // each the rate at which it would settle if it alone had no such bound and counted in full: at
  // least what the links of its paths have left beside the demands of all. By weights (`adds_up`,
  // by commodity, 0 or 1) that is the sum of its subflows, else as fast as the slowest.
  std::span<const double> PredictLimits(std::span<const Commodity> commodities,
                                        const Assignment& assignment,
                                        std::span<const std::int64_t> base_loads,
                                        std::span<const Demand> demands,
                                        std::span<const std::uint8_t> adds_up);

 private:
  // Fills path_begin_, path_links_ and weights_ with the subflows and base loads.
  void ListPaths(std::span<const Commodity> commodities, const Assignment& assignment,
                 std::span<const std::int64_t> base_loads);
  // The same beside demands: each subflow with a bound has a link of its own.
  void BoundByDemands(std::span<const Commodity> commodities, const Assignment& assignment,
                      std::span<const Demand> demands);
  // What the links have left, and the fastest subflow on each, for the last solution.
  void MeasureLinks(std::span<const double> solved);
  // The rate of a commodity, whose subflows these are, if it had no bound.
  double LimitOf(const Commodity& commodity, const Assignment& assignment, std::size_t first,
                 std::size_t end, std::span<const double> solved, bool adds_up);

  FabricView& view_;
  graph::MaxMin max_min_;
  std::vector<std::uint32_t> path_begin_;
  std::vector<std::uint32_t> path_links_;
  std::vector<std::uint32_t> weights_;
  std::vector<double> subflow_rates_;
  std::vector<double> rates_;
  std::vector<double> capacities_;  // of all links, and of those that stand for demands
  std::vector<double> left_;        // by directed link
  std::vector<double> fastest_;     // by directed link: rate of the fastest, for a share of 1
  std::vector<double> own_rate_;    // by directed link: of one commodity; else 0
  std::vector<double> own_share_;
};

// How good an assignment is for the jobs, by the fairness layers of Routing for Large ML Models
// (section 3.3). A job is as fast as its slowest flow; the slowest jobs are compared first, then
// the next slower ones. Ties are broken by the sum of the flows' rates.
struct Score {
  std::vector<double> job_rates;  // each job's slowest rate / weight, ascending
  double total_rate = 0;
};
Score ComputeScore(std::span<const Commodity> commodities, std::span<const double> rates,
                   std::span<const std::uint32_t> job_weights);
// Rates that differ by at most a factor of 1e-9 are equal.
bool IsBetter(const Score& score, const Score& than);

}  // namespace espalier::controller
