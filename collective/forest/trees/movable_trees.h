#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective/forest/bound/tree_count.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"

namespace espalier::forest {

// One route for the data of a tree edge into a rank: over a link, or over switches.
struct IncomingRoute {
  Rank from = 0;
  std::vector<std::int32_t> hops;  // arcs of the problem
};

// All short routes into every rank that ECMP can take (up to four hops: GPU, NIC, switch, NIC,
// GPU), and the routes that a forest uses besides.
struct IncomingRoutes {
  std::vector<std::vector<IncomingRoute>> into;  // by rank
  std::vector<std::uint32_t> of_route;  // by route of the forest: its index among those of its rank
};
// None if there are more than kMaxFeeders in all.
inline constexpr std::size_t kMaxFeeders = 200'000;
std::optional<IncomingRoutes> FindIncomingRoutes(const Problem& problem, const TreeCount& count,
                                                 const Forest& forest);

// The trees of a forest in a form in which edges can move: children, depths, the load of every arc.
// Classes are divided so that every edge takes one incoming route ("feeder").
class MovableTrees {
 public:
  MovableTrees(const Problem& problem, const TreeCount& count, const Forest& forest,
               const IncomingRoutes& feeders);

  struct Edge {
    std::uint32_t tree = 0;  // class
    Rank child = 0;
  };

  std::size_t TreeCountOf() const { return roots_.size(); }
  std::int64_t CountOf(std::uint32_t tree) const { return counts_[tree]; }
  Rank RootOf(std::uint32_t tree) const { return roots_[tree]; }
  std::int32_t HeightOf(std::uint32_t tree) const { return heights_[tree]; }
  Rank DeepestOf(std::uint32_t tree) const;
  Rank ParentOf(Edge edge) const;
  std::int32_t DepthOf(std::uint32_t tree, Rank rank) const { return At(tree, rank).depth; }
  const IncomingRoute& FeederOf(Edge edge) const;
  std::int64_t LeftOn(std::int32_t arc) const { return left_[static_cast<std::size_t>(arc)]; }

  // Returns whether `rank` is `child` or below it.
  bool IsBelow(Edge edge, Rank rank) const;
  // Returns the change of the sum over the ranks of 3^depth, for one tree, if the child hung below
  // another parent. The steps that this takes are added to steps().
  double CostOf(Edge edge, Rank parent);

  // Release returns the edge's capacity; Take takes it for a feeder (by index among the child's).
  void Release(Edge edge);
  void Take(Edge edge, std::size_t feeder);
  // Returns an arc of the feeder without room for `trees`, at a rank if there is one; -1 if all
  // have room.
  std::int32_t Blocked(Rank child, std::size_t feeder, std::int64_t trees) const;
  // Hangs the child of a released edge elsewhere and takes the feeder.
  void Move(Edge edge, std::size_t feeder);
  // Leaves `count` trees in the class and moves the others into a new one, which is returned.
  std::uint32_t Split(std::uint32_t tree, std::int64_t count);

  std::int64_t steps() const { return steps_; }
  void AddSteps(std::int64_t steps) { steps_ += steps; }

  // Calls visit(Edge) for the edges that use the arc, in cyclic order from a class on, until it
  // returns true.
  template <typename Visit>
  bool VisitUsers(std::int32_t arc, std::uint32_t first_tree, Visit visit);

  // Returns the trees as a forest with the same k, scale and method.
  Forest Collect(const Forest& original) const;

 private:
  struct Place {
    Rank parent = kNoRank;
    Rank first_child = kNoRank;
    Rank next = kNoRank;      // sibling
    Rank previous = kNoRank;  // sibling; none for the first child
    std::uint16_t depth = 0;
    std::uint32_t feeder = 0;
  };
  Place& At(std::uint32_t tree, Rank rank) { return places_[tree * ranks_ + rank]; }
  const Place& At(std::uint32_t tree, Rank rank) const { return places_[tree * ranks_ + rank]; }

  void Hang(std::uint32_t tree, Rank child, Rank parent);
  void Unhang(std::uint32_t tree, Rank child);
  void SetDepths(std::uint32_t tree, Rank top);
  bool Uses(Edge edge, std::int32_t arc) const;
  // Lists the ranks from `top` down in scratch_.
  void ListBelow(std::uint32_t tree, Rank top);

  const Problem& problem_;
  const std::vector<std::vector<IncomingRoute>>& feeders_;
  std::size_t ranks_;
  std::vector<Rank> roots_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int32_t> heights_;
  std::vector<Place> places_;       // class-major
  std::vector<std::int64_t> left_;  // by arc
  std::vector<double> weight_;      // by depth
  std::vector<Rank> scratch_;
  std::int64_t steps_ = 0;
};

template <typename Visit>
bool MovableTrees::VisitUsers(std::int32_t arc, std::uint32_t first_tree, Visit visit) {
  const Arc& which = problem_.arcs[static_cast<std::size_t>(arc)];
  const auto trees = static_cast<std::uint32_t>(roots_.size());
  for (std::uint32_t i = 0; i < trees; ++i) {
    const std::uint32_t tree = (first_tree + i) % trees;
    if (problem_.IsRank(which.head)) {
      const Edge edge{tree, static_cast<Rank>(which.head)};
      if (Uses(edge, arc) && visit(edge)) return true;
    } else if (problem_.IsRank(which.tail)) {
      Rank child = At(tree, static_cast<Rank>(which.tail)).first_child;
      while (child != kNoRank) {
        const Rank next = At(tree, child).next;  // visit may move the child
        if (Uses({tree, child}, arc) && visit(Edge{tree, child})) return true;
        child = next;
      }
    }
    ++steps_;
  }
  return false;
}

}  // namespace espalier::forest
