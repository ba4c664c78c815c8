#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/forest/model/forest.h"

namespace espalier::forest {

// Looks through the parent arrays of a forest whose roots are ranks and whose array has
// rank_count entries a class. The forest must stay alive. What is found does not depend on the
// number of threads.
class TreeChecker {
 public:
  explicit TreeChecker(const Forest& forest, int threads = 1)
      : forest_(forest), threads_(threads) {}

  struct BadTree {
    std::size_t tree_class = 0;
    Rank rank = 0;
    std::string_view what;  // "is not reached from the root", ...
  };
  // The first tree that is none, or none. Heights are of this forest and what they were before.
  std::optional<BadTree> FindBadTree(Heights& heights) const;

  struct Usage {
    std::vector<std::int64_t> uses;                // trees, by arc of the routing table
    std::optional<std::pair<Rank, Rank>> missing;  // an edge in use that is no such arc
    bool overflow = false;                         // more than 63 bits of trees
  };
  // All trees must be good. O(classes * ranks + arcs), in blocks of ranks that fit the cache.
  Usage CountUses() const;

 private:
  const Forest& forest_;
  int threads_;
};

}  // namespace espalier::forest
