#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/edge_splitting/split_graph.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// Guesses of complete pairings: splits that use up all capacity of one node and that will nearly
// always keep all flows as large as they have to be. To be verified by the caller.

// For a switch. The neighbours' capacities are laid out on one circle, those of one component
// next to each other, and every position is joined with the one a largest component further on:
// GPU i to GPU i + 1 within a box, all of box i to box i + 1 between boxes.
// Neighbours in a higher tier (the trunk of a leaf) are one more component, of which no more is
// used than the largest other has: it is enough, as that alone can take in all there is to
// receive; the rest of the trunk is dropped. So no route goes down and up again.
// component: by rank, those joined without this and higher switches.
std::vector<Split> GuessSwitchPairing(const Problem& problem, const SplitGraph& graph,
                                      std::int32_t node, std::span<const std::int32_t> component);

// For a rank with mates in its box. Roots and the ways back to s stay inside the box; what enters
// from outside goes on inside and what comes from inside goes outside, so that the box keeps its
// place between its neighbours; what is left inside is rotated.
// box: by rank.
std::vector<Split> GuessRankPairing(const SplitGraph& graph, std::int32_t node,
                                    std::span<const std::int32_t> box);

}  // namespace espalier::forest
