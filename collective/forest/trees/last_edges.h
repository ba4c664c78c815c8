#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective/forest/model/control.h"
#include "collective/forest/trees/half_routes.h"
#include "collective/forest/trees/tree_table.h"

namespace espalier::forest {

// Finds senders for the last edges of trees that have all others, and keeps every link within its
// capacity. An edge goes to a rank that has room, preferably to one near the root. If none has
// room, a rank gives up an edge of another tree that finds a new sender in the same way. Classes of
// several trees are divided if nothing else helps, at most doubling the number of classes.
// Not thread-safe.
class LastEdges {
 public:
  // All arguments must outlive this object.
  LastEdges(const HalfRoutes& half_routes, TreeTable& trees);

  // Returns true if all edges found a sender. Deterministic. Ends early when cancelled, and after
  // as many candidates as the trees have edges plus a million.
  bool PlaceAll(std::vector<TreeTable::Edge> edges, const Control& control);

 private:
  using Edge = TreeTable::Edge;
  using Sender = TreeTable::Sender;
  struct Candidate {
    Sender sender;
    std::int32_t depth = 0;
  };

  bool DivideTrees(std::vector<Edge>& edges);
  std::int64_t MostRoom(const Edge& edge);
  void ListRoomy();
  bool Place(const Edge& edge, int more_moves);
  bool PlaceInRoom(const Edge& edge);
  std::span<const Rank> RoomySenders(const Edge& edge) const;
  std::optional<Candidate> FindCandidate(const Edge& edge, Rank rank);
  std::int32_t FullArc(const Edge& edge, const Sender& sender) const;
  bool TakeFromOther(const Edge& edge, const Sender& sender, int more_moves);
  bool TakeOnDirectLink(const Edge& edge, const Sender& sender, std::int32_t arc, int more_moves);
  bool TakeFromTree(const Edge& edge, const Sender& sender, std::uint32_t tree, std::int32_t arc,
                    int more_moves);
  bool Uses(const Edge& edge, std::int32_t arc) const;
  bool Replace(const Edge& other, const Edge& edge, const Sender& sender, int more_moves);
  std::uint32_t NextTree();

  const HalfRoutes& half_routes_;
  TreeTable& trees_;
  std::uint32_t max_trees_;
  std::vector<std::uint32_t> first_tree_;  // by root
  std::vector<Rank> roomy_;                // ranks that had room on some half route
  std::size_t turn_ = 0;
  std::int64_t looks_left_;
};

}  // namespace espalier::forest
