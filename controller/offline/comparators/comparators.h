#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/model/assignment.h"

namespace espalier::offline {

// The algorithms with which the evaluation compares Espalier's assigners; the controller does not
// use them. All are deterministic. Commodities within one leaf take no path, unreachable ones are
// reported (kNoPath), and only usable paths are taken. Commodities with too many subflows are a
// broken invariant (see SubflowNumbers). Thread safety: one thread (the view fills its cache).

// Plain ECMP: puts every subflow on a path that a hash picks among the usable ones. `keys` stand
// for the packets' five-tuples, one for each commodity. The hash depends only on the keys and the
// seed, so that a flow keeps its path whatever other flows are in progress. O(commodities x
// subflows).
controller::Assignment AssignByHash(controller::FabricView& view,
                                    std::span<const controller::Commodity> commodities,
                                    std::span<const std::uint64_t> keys, std::uint64_t seed);

struct AnnealingOptions {
  // Steps of falling temperature (T0 of Hedera).
  std::int64_t steps = 20'000;
  std::uint64_t seed = 1;
};

// Simulated annealing as in Hedera (Al-Fares et al., NSDI 2010, section 4.3.2). The state assigns
// one core switch to every destination NIC for all that it receives. A step swaps the cores of two
// destinations, mostly of one leaf. The energy is the sum over all links of the flow units above
// capacity. Worse states are accepted with probability exp(-c dE / T), and the best state is kept.
// Here a core is a number; it stands for the usable path of that number, modulo the number of
// usable paths of the pair. Destinations of one leaf begin with different cores. A commodity
// without a destination NIC is a destination of its own, and each subflow has a core of its own.
// O(steps x flows of a destination + commodities).
controller::Assignment AssignByAnnealing(controller::FabricView& view,
                                         std::span<const controller::Commodity> commodities,
                                         const AnnealingOptions& options);

}  // namespace espalier::offline
