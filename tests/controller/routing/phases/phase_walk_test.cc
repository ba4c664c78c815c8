#include "controller/routing/phases/phase_walk.h"

#include <gtest/gtest.h>

#include "controller/routing/phases/phase_chains.h"
#include "tests/controller/routing/phases/training_jobs.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

const TrainingJobs kLayout{.leaves = 12, .hosts_per_leaf = 2, .nics = 1, .copies = 2, .stages = {}};

// Jobs with a flow for each host, on random paths.
struct WalkCase {
  explicit WalkCase(std::uint64_t seed)
      : random(static_cast<std::uint32_t>(seed)), fabric(Fabric::LeafSpine(2, 12)) {
    TrainingJobs layout = kLayout;
    layout.stages = {3, 4, 4};
    input = PlaceTrainingJobs(random, layout);
    for (PhaseFlow& flow : input.flows) flow.path = static_cast<std::int32_t>(random() % 2);
    problem.emplace(fabric->view, std::span<const std::int64_t>{}, input.flows, input.jobs);
    PhaseBounds bounds = ComputePhaseBounds(*problem);
    goals = {bounds.even_share, bounds.alone};
    loads.emplace(*problem, goals);
    for (std::uint32_t flow = 0; flow < problem->flow_count(); ++flow) {
      if (problem->IsPlaced(flow)) loads->Place(flow, problem->HomeOf(flow));
    }
  }

  // By chains only, until none helps.
  void Relieve() {
    PhaseChains chains(*problem, *loads, 1'000'000);
    chains.SetLimits(goals.links);
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (const std::uint32_t link :
           std::vector(loads->LinksAbove().begin(), loads->LinksAbove().end())) {
        has_changed |= chains.IsAboveLimit(link) && chains.Relieve(link);
      }
    }
  }

  std::mt19937 random;
  std::unique_ptr<Fabric> fabric;
  PhaseCase input;
  PhaseGoals goals;
  std::optional<PhaseProblem> problem;
  std::optional<PhaseLoads> loads;
};

TEST(PhaseWalk, PassesLocalOptimaOfChains) {
  std::int64_t by_chains = 0;
  std::int64_t by_walk = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(seed);
    WalkCase test(seed);
    test.Relieve();
    const std::pair before(test.loads->excess(), test.loads->ExcessAlone());
    PhaseWalk(*test.problem, *test.loads, 200'000).Run();
    const std::pair after(test.loads->excess(), test.loads->ExcessAlone());
    EXPECT_LE(after, before);
    by_chains += before.first;
    by_walk += after.first;
  }
  std::printf("excess by chains %ld, after the walk %ld\n",
              static_cast<long>(by_chains / kLoadUnit), static_cast<long>(by_walk / kLoadUnit));
  EXPECT_LT(2 * by_walk, by_chains);
}

TEST(PhaseWalk, TakesTheSameStepsEachTime) {
  WalkCase first(7);
  WalkCase second(7);
  PhaseWalk(*first.problem, *first.loads, 50'000).Run();
  PhaseWalk(*second.problem, *second.loads, 50'000).Run();
  EXPECT_TRUE(std::ranges::equal(first.loads->routes(), second.loads->routes()));
}

TEST(PhaseWalk, CountsWhatIsAboveTheGoals) {
  WalkCase test(11);
  PhaseWalk(*test.problem, *test.loads, 20'000).Run();
  std::int64_t excess = 0;
  std::int64_t alone = 0;
  for (std::uint32_t link = 0; link < test.problem->link_count(); ++link) {
    if (!test.loads->CarriesMovable(link)) continue;
    excess += std::max<std::int64_t>(0, test.loads->WorstOf(link) - test.goals.links[link]);
    for (std::uint32_t phase = 0; phase < test.problem->phase_count(); ++phase) {
      const bool is_used =
          std::ranges::any_of(test.problem->FlowsOf(phase), [&](std::uint32_t flow) {
            return std::ranges::find(test.loads->FlowsOn(link), flow) !=
                   test.loads->FlowsOn(link).end();
          });
      if (!is_used) continue;
      alone += std::max<std::int64_t>(
          0, test.loads->LoadOf(phase, link) -
                 UnitsAtMost(test.fabric->view, test.goals.phases[phase], link));
    }
  }
  EXPECT_EQ(test.loads->excess(), excess);
  EXPECT_EQ(test.loads->ExcessAlone(), alone);
}

// Nothing above its goal: no step is taken.
TEST(PhaseWalk, KeepsWhatIsWithinTheGoals) {
  WalkCase test(3);
  test.goals.links.assign(test.problem->link_count(), 100 * kLoadUnit);
  test.goals.phases.clear();
  PhaseLoads loads(*test.problem, test.goals);
  std::vector<std::uint32_t> routes(test.loads->routes().begin(), test.loads->routes().end());
  for (std::uint32_t flow = 0; flow < routes.size(); ++flow) {
    if (test.problem->IsPlaced(flow)) loads.Place(flow, routes[flow]);
  }
  PhaseWalk(*test.problem, loads, 20'000).Run();
  EXPECT_TRUE(std::ranges::equal(loads.routes(), routes));
}

}  // namespace
}  // namespace espalier::controller
