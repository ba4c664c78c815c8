#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/trees/half_routes.h"

namespace espalier::forest {

// The trees of a forest as a table: by which half route each rank is entered in each tree, from
// which sender and by which half route of that sender. It also holds the remaining capacity of the
// links. Trees are classes, divided so that every edge takes one route.
//
// Idea: a route is a half route from the sender up to a hub and one from the hub down to the
// receiver (HalfRoutes), and only the loads of these halves count. So any rank whose half route to
// the hub has room can be the sender.
// Invariant: the remaining capacity of a link is its capacity less the incoming halves of all edges
// and the outgoing halves of edges that have a sender.
// Cost: Attach, Detach and SetIn take a step per hop, Divide one per rank, and Collect one per
// edge. Memory: 4 bytes per edge.
// Not thread-safe.
class TreeTable {
 public:
  // The edge of a tree that ends at a rank.
  struct Edge {
    std::uint32_t tree = 0;
    Rank child = kNoRank;
  };
  struct Sender {
    Rank rank = kNoRank;
    std::uint16_t out = 0;  // index of its half route
  };

  // Reads from the forest by which half route each rank is entered, but not its senders: every rank
  // except the roots has no parent yet. All arguments except the forest must outlive this object.
  TreeTable(const Problem& problem, const TreeCount& count, const Forest& forest,
            const HalfRoutes& half_routes);

  // Creates the trees of `count` on a network without switches, without edges.
  TreeTable(const Problem& problem, const TreeCount& count, const HalfRoutes& half_routes);

  std::uint32_t TreeCountOf() const { return static_cast<std::uint32_t>(roots_.size()); }
  std::size_t RankCount() const { return ranks_; }
  Rank RootOf(std::uint32_t tree) const { return roots_[tree]; }
  std::int64_t CountOf(std::uint32_t tree) const { return counts_[tree]; }
  // The parents of all ranks; kNoRank: none.
  std::span<const Rank> Parents(std::uint32_t tree) const {
    return {parents_.data() + tree * ranks_, ranks_};
  }
  bool IsAttached(const Edge& edge) const {
    return Parents(edge.tree)[edge.child] != kNoRank || roots_[edge.tree] == edge.child;
  }

  const HalfRoute& InOf(const Edge& edge) const {
    return half_routes_.In(edge.child, in_[edge.tree * ranks_ + edge.child]);
  }
  std::uint16_t PlaceOfIn(const Edge& edge) const { return in_[edge.tree * ranks_ + edge.child]; }
  // Lets the edge enter by another half route.
  void SetIn(const Edge& edge, std::uint16_t place);
  // Precondition: the edge has a sender.
  Sender SenderOf(const Edge& edge) const {
    const std::size_t at = edge.tree * ranks_ + edge.child;
    return {parents_[at], out_[at]};
  }
  // Returns how many more trees a half route can carry.
  std::int64_t RoomOf(const HalfRoute& half) const;
  std::int64_t LeftOn(std::int32_t arc) const { return left_[static_cast<std::size_t>(arc)]; }
  // Attach gives a sender to an edge without one; Detach removes it.
  void Attach(const Edge& edge, const Sender& sender);
  void Detach(const Edge& edge);

  // Leaves `count` trees in the class and moves the others into a new one, which is returned.
  std::uint32_t Divide(std::uint32_t tree, std::int64_t count);

  // Returns the trees as a forest. Precondition: all edges have senders.
  Forest Collect(const TreeCount& count) &&;

 private:
  // A tree's edge into some rank.
  struct Use {
    Rank parent = kNoRank;
    std::uint8_t out = 0;
    std::uint8_t in = 0;
    std::uint32_t tree = 0;
  };

  void Read(const Forest& forest);
  void Take(const HalfRoute& half, std::int64_t trees);
  RoutingTable CollectRoutes(std::span<const std::uint32_t> order) const;
  void AddRoutesTo(Rank child, std::span<const Use> uses, RoutingTable& routes) const;

  const Problem& problem_;
  const HalfRoutes& half_routes_;
  std::size_t ranks_;
  std::vector<Rank> roots_;  // by tree
  std::vector<std::int64_t> counts_;
  std::vector<Rank> parents_;       // tree-major
  std::vector<std::uint8_t> out_;   // tree-major: indices of half routes
  std::vector<std::uint8_t> in_;    // tree-major: indices of half routes
  std::vector<std::int64_t> left_;  // by arc
};

}  // namespace espalier::forest
