#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/assignment.h"

namespace espalier::offline {

// What Espalier's assigners are compared with in its evaluation; the controller uses none of it.
// All: deterministic; commodities within one leaf take no path, unreachable ones are reported
// (kNoPath); only usable paths are taken; commodities of too many ways are a broken invariant (see
// SubflowNumbers). Thread: one (the view fills its cache).

// Plain ECMP: every way of every commodity on a path that a hash picks among the usable ones.
// `keys` stand for the packets' five-tuples, one a commodity; with the seed they are the hash's
// input, so that a flow keeps its path whatever else is live. O(commodities x ways).
controller::Assignment AssignByHash(controller::FabricView& view,
                                    std::span<const controller::Commodity> commodities,
                                    std::span<const std::uint64_t> keys, std::uint64_t seed);

struct AnnealingOptions {
  // Steps of falling temperature (T0 of Hedera).
  std::int64_t steps = 20'000;
  std::uint64_t seed = 1;
};

// Simulated annealing as in Hedera (Al-Fares et al., NSDI 2010, section 4.3.2): the state gives
// every destination NIC one core switch, for all that it receives; a step swaps the cores of two
// destinations, mostly of one leaf; the energy is the flow units above capacity, summed over all
// links; worse states are taken with probability exp(-c dE / T). Keeps the best state seen.
// Here a core is a number and the path it stands for that number among the pair's usable paths,
// modulo how many there are; destinations of a leaf begin on different ones. A commodity without
// destination NIC is a destination of its own; each way has a core of its own.
// O(steps x flows of a destination + commodities).
controller::Assignment AssignByAnnealing(controller::FabricView& view,
                                         std::span<const controller::Commodity> commodities,
                                         const AnnealingOptions& options);

}  // namespace espalier::offline
