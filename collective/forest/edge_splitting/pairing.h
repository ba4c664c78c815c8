#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Guesses complete pairings: splits that use up all capacity of one node and that nearly always
// keep all flows large enough. The caller must verify them.

// Guesses the pairing of a switch. The capacities of its neighbours are laid out on a circle, those
// of one component next to each other. Every position is joined with the position that lies the
// size of the largest component further on: within a box GPU i with GPU i + 1, between boxes all of
// box i with box i + 1. Neighbours in a higher tier (the trunk of a leaf) form one more component.
// Only as much of it is used as the largest other component has, which suffices because that much
// can carry everything to be received. The rest of the trunk is dropped, so no route goes down and
// up again.
// component: by rank, the components that exist without this switch and higher ones.
std::vector<Split> GuessSwitchPairing(const Problem& problem, const SplitGraph& graph,
                                      std::int32_t node, std::span<const std::int32_t> component);

// Guesses the pairing of a rank that shares its box with others. Supply from s and returns to s
// stay inside the box. Capacity that enters from outside continues inside and the other way round,
// so that the box keeps its place between its neighbours. The rest inside is rotated.
// box: by rank.
std::vector<Split> GuessRankPairing(const SplitGraph& graph, std::int32_t node,
                                    std::span<const std::int32_t> box);

}  // namespace espalier::forest
