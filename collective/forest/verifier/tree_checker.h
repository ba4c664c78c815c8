#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/forest/model/forest.h"

namespace espalier::forest {

// Checks the parent arrays of a forest whose roots are ranks and whose array has rank_count entries
// per class. The forest must stay alive. The result does not depend on the number of threads.
class TreeChecker {
 public:
  explicit TreeChecker(const Forest& forest, int threads = 1)
      : forest_(forest), threads_(threads) {}

  struct BadTree {
    std::size_t tree_class = 0;
    Rank rank = 0;
    std::string_view what;  // "is not reached from the root", ...
  };
  // Returns the first malformed tree, or none. Sets `heights` to those of this forest and of its
  // earlier value together.
  std::optional<BadTree> FindBadTree(Heights& heights) const;

  struct Usage {
    std::vector<std::int64_t> uses;  // trees by arc of the routing table
    std::optional<std::pair<Rank, Rank>>
        missing;            // a tree edge without an arc in the routing table
    bool overflow = false;  // the trees exceed 63 bits
  };
  // Counts the uses of each arc. Precondition: all trees are well-formed. O(classes * ranks +
  // arcs), in blocks of ranks that fit the cache.
  Usage CountUses() const;

 private:
  const Forest& forest_;
  int threads_;
};

}  // namespace espalier::forest
