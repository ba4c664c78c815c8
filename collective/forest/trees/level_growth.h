#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/trees/half_routes.h"
#include "collective/forest/trees/tree_table.h"

namespace espalier::forest {

// Grows trees from their roots, all at once and level by level, as long as there is room.
// Not thread-safe.
class LevelGrowth {
 public:
  // All arguments must outlive this object. No tree has edges yet.
  LevelGrowth(const Problem& problem, const HalfRoutes& half_routes, TreeTable& trees);

  // Grows until no tree grows any more; returns false when cancelled.
  bool Grow(const Control& control);
  // Returns the edges that got no sender.
  std::vector<TreeTable::Edge> Pending() const;

 private:
  using Edge = TreeTable::Edge;
  using Sender = TreeTable::Sender;
  // In the order of a tree, [done, reached) are the ranks that send next, followed by those that
  // wait.
  struct Progress {
    std::size_t done = 0;
    std::size_t reached = 1;
  };
  struct Offer {
    Sender sender;
    std::int64_t room = 0;
  };

  Rank* Order(std::uint32_t tree) { return order_.data() + tree * ranks_; }
  bool GrowLevel(std::uint32_t tree);
  void ListWaiting(const Edge& edge);
  void ListSender(std::uint32_t tree, Rank rank);
  void ServeHub(std::uint32_t tree, std::size_t hub);
  std::optional<Sender> ChooseSender(const Edge& edge, std::vector<Sender>& senders);
  bool Advance(std::uint32_t tree);

  const Problem& problem_;
  const HalfRoutes& half_routes_;
  TreeTable& trees_;
  std::size_t ranks_;
  std::vector<Progress> progress_;  // by tree
  std::vector<Rank> order_;         // tree-major

  // State of the tree that is growing.
  std::vector<std::int32_t> hubs_;            // switches where ranks wait
  std::vector<Rank> first_;                   // by node: the first rank that waits there
  std::vector<Rank> next_;                    // by rank: the next rank that waits at the same hub
  std::vector<std::vector<Sender>> senders_;  // by node
  std::vector<std::uint8_t> waits_;           // by rank: waits for a rank with a direct link to it
  std::vector<Offer> offers_;                 // by such a rank: the sender with the most room
  std::vector<Rank> offered_;
  std::size_t turn_ = 0;
};

}  // namespace espalier::forest
