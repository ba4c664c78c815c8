#include "controller/offline/evaluation/connection_schemes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "common/base/random.h"
#include "common/fabric/builders.h"
#include "controller/offline/simulation/assignment_router.h"
#include "tests/seeds.h"

namespace espalier::offline {
namespace {

using controller::Assignment;
using controller::Commodity;
using controller::kLoadUnit;
using controller::Load;

// Three leaves with four hosts each, and two spines.
class ConnectionSchemes : public testing::Test {
 protected:
  void Build(std::vector<Job> jobs, std::uint32_t subflows = 1) {
    workload_.emplace(*Workload::Build(topology_, std::move(jobs)));
    router_.emplace(*workload_, view_, subflows, nullptr);
    flows_.resize(workload_->flows().size());
    std::iota(flows_.begin(), flows_.end(), 0U);
  }
  Job MakeJob(const std::vector<std::vector<std::pair<int, int>>>& phases) const {
    Job job{.id = "j", .epochs = 1, .phases = {}};
    for (const auto& pairs : phases) {
      Exchange exchange{.flows = {}, .round_bytes = 1};
      for (const auto& [from, to] : pairs) exchange.flows.push_back({Host(from), Host(to)});
      job.phases.push_back({.exchanges = {std::move(exchange)}});
    }
    return job;
  }
  fabric::NodeId Host(int i) const { return *topology_.FindNode("h" + std::to_string(i)); }
  std::span<const Commodity> commodities() const { return router_->commodities(); }
  WorstOverlap Overlap(const Assignment& assignment) const {
    return ComputeWorstOverlap(view_, *workload_, commodities(), flows_, assignment);
  }
  // By definition: one phase of each job, in every combination.
  std::int64_t WorstUnits(const Assignment& assignment, std::size_t job = 0,
                          const std::map<std::uint32_t, std::int64_t>& loads = {}) const {
    if (job == workload_->jobs().size()) {
      std::int64_t most = 0;
      for (const auto& [link, units] : loads) most = std::max(most, units);
      return most;
    }
    std::int64_t worst = 0;
    for (const auto& phase : workload_->PhasesOf(static_cast<std::uint32_t>(job))) {
      auto more = loads;
      for (const std::uint32_t f : phase) {
        const Commodity& commodity = commodities()[f];
        if (commodity.source == commodity.destination) continue;
        for (const std::int32_t path : assignment.PathsOf(f)) {
          std::vector<std::uint32_t> hops;
          view_.AppendHops(commodity.source, commodity.destination, path, hops);
          for (const std::uint32_t link : hops) more[link] += kLoadUnit / commodity.subflows;
        }
      }
      worst = std::max(worst, WorstUnits(assignment, job + 1, more));
    }
    return worst;
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 4}));
  fabric::PathTable paths_{topology_};
  controller::FabricView view_{topology_, paths_};
  std::optional<Workload> workload_;
  std::optional<AssignmentRouter> router_;
  std::vector<std::uint32_t> flows_;
};

// Two phases of two flows each from leaf 0 to leaf 1, over two spines: all four connections fill
// both spines evenly whichever two share one, but only if these are of different phases does every
// flow have a link of its own.
TEST_F(ConnectionSchemes, PhasesTellApartWhatConnectionsCannot) {
  Build({MakeJob({{{0, 4}, {1, 5}}, {{0, 5}, {1, 4}}})});
  PhaseAssigner phases(view_, *workload_);
  const Assignment assigned = phases.Assign(commodities(), flows_);
  EXPECT_EQ(Overlap(assigned).load, Load{1});
  EXPECT_EQ(Overlap(assigned).lower_bound, Load{1});
  Assignment even = assigned;
  even.paths = {0, 0, 1, 1};
  EXPECT_EQ(Overlap(even).load, Load{2});
}

TEST_F(ConnectionSchemes, WorstOverlapIsThatOfAllCombinationsOfPhases) {
  for (const std::uint64_t seed : SeedsToTry(1, 30)) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<Job> jobs;
    for (std::uint64_t j = 0; j < 1 + random.Below(3); ++j) {
      std::vector<std::vector<std::pair<int, int>>> phases(1 + random.Below(3));
      for (auto& phase : phases) {
        for (std::uint64_t f = 0; f < 1 + random.Below(5); ++f) {
          const auto from = static_cast<int>(random.Below(12));
          phase.emplace_back(from, (from + 1 + static_cast<int>(random.Below(11))) % 12);
        }
      }
      jobs.push_back(MakeJob(phases));
    }
    Build(std::move(jobs), 1 + static_cast<std::uint32_t>(random.Below(2)));
    PhaseAssigner phases(view_, *workload_);
    ConnectionAssigner connections(view_);
    const Assignment for_phases = phases.Assign(commodities(), flows_);
    const Assignment for_all = connections.Assign(commodities(), flows_);
    for (const Assignment* assignment : {&for_phases, &for_all}) {
      const WorstOverlap overlap = Overlap(*assignment);
      EXPECT_EQ(overlap.load,
                controller::MakeLoad(view_, WorstUnits(*assignment), view_.unit_bps()));
      EXPECT_GE(overlap.load, overlap.lower_bound);
    }
    EXPECT_LE(Overlap(for_phases).load, Overlap(for_all).load);
  }
}

TEST_F(ConnectionSchemes, KeepPathsWhenNothingIsInTheWay) {
  Build({MakeJob({{{0, 4}, {1, 5}}, {{4, 0}}}), MakeJob({{{2, 8}, {8, 2}}, {{9, 1}}})});
  const std::vector<std::uint32_t> first = {0, 1, 2};
  ConnectionAssigner connections(view_);
  PhaseAssigner phases(view_, *workload_);
  const auto assign = [&](std::span<const std::uint32_t> flows, bool by_phases) {
    const auto some = commodities().subspan(flows.front(), flows.size());
    return by_phases ? phases.Assign(some, flows) : connections.Assign(some, flows);
  };
  for (const bool by_phases : {false, true}) {
    SCOPED_TRACE(by_phases);
    const Assignment alone = assign(first, by_phases);
    const Assignment together = assign(flows_, by_phases);
    EXPECT_TRUE(std::equal(alone.paths.begin(), alone.paths.end(), together.paths.begin()));
    const std::vector<std::uint32_t> last = {3, 4, 5};
    const Assignment later = assign(last, by_phases);
    EXPECT_TRUE(std::equal(later.paths.begin(), later.paths.end(), together.paths.begin() + 3));
  }
}

}  // namespace
}  // namespace espalier::offline
