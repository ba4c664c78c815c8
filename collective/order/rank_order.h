#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/program/program.h"

namespace espalier::order {

// What ranks send one another in one call, in chunks of the call's data.
struct RankTraffic {
  struct Amount {
    std::int32_t from = 0;
    std::int32_t to = 0;
    std::int64_t chunks = 0;
  };
  int ranks = 0;
  std::int64_t all_chunks = 1;  // of the call's data
  std::vector<Amount> amounts;  // one for each pair that sends, by from and to
};
RankTraffic MeasureTraffic(const program::Program& program);

// One tier of places for ranks: which places share a host, a leaf, a pod.
struct Level {
  std::string name;
  std::vector<int> group_of;  // by place, numbered from 0
};

struct OrderAdvice {
  std::vector<int> place_of;  // by rank, for the best order that was found
  // By level: the chunks that leave a group, all groups together.
  std::vector<std::int64_t> present;  // of the order in which places are given
  std::vector<std::int64_t> best;
  std::vector<std::int64_t> least;  // no order has less
  bool is_optimal = false;          // best is least at every level
};

// Problem: ranks are processes at given places, and the job may number them freely. Which numbering
// keeps most bytes inside hosts, leaves and pods?
//
// Idea: places sorted by their groups, from the widest level down, are the best order of a ring and
// of hierarchies of rings whose nodes fit into groups. Other traffic is improved by exchanges of
// two ranks, as the problem (graph partitioning) is NP-hard. The bound: what leaves a group is at
// least the least that leaves any set of ranks, which maximum flows find. So a ring's result is
// proved to be optimal, and others often are. Complexity: ranks x pairs for the bound, which is 0
// above kMaxBoundWork; exchanges until none helps, at most kMaxTrials. Precondition: every level
// has a group for each of traffic.ranks places.
OrderAdvice AdviseOrder(const RankTraffic& traffic, const std::vector<Level>& levels);

}  // namespace espalier::order
