#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/forest.h"
#include "collective/forest/problem.h"
#include "collective/forest/trees/routed_trees.h"
#include "collective/forest/trees/sender_ports.h"

namespace espalier::forest {

// The trees of a forest as a table: who sends to each rank in each tree, over which ports; and
// what the links have left. Trees are classes that are split so that every edge takes one route.
//
// Every rank has a label in each tree, at least its depth and more than its parent's. A child
// that is only ever given senders with smaller labels than its own can't come to lie in a circle,
// and what hangs below it need not be looked at.
class SenderTrees {
 public:
  using Label = std::uint16_t;
  // The edge of a tree that ends at a rank.
  struct Edge {
    std::uint32_t tree = 0;
    Rank child = kNoRank;
  };
  struct Sender {
    Rank rank = kNoRank;
    std::uint16_t out = 0;  // place of its port
  };

  // All must stay alive.
  SenderTrees(const Problem& problem, const TreeCount& count, const Forest& forest,
              const SenderPorts& ports);

  std::uint32_t TreeCountOf() const { return static_cast<std::uint32_t>(roots_.size()); }
  std::size_t RankCount() const { return ranks_; }
  Rank RootOf(std::uint32_t tree) const { return roots_[tree]; }
  std::int64_t CountOf(std::uint32_t tree) const { return counts_[tree]; }
  // Of the tree when labels were last set.
  std::int32_t HeightOf(std::uint32_t tree) const { return heights_[tree]; }
  Label LabelOf(std::uint32_t tree, Rank rank) const { return labels_[tree * ranks_ + rank]; }

  Sender SenderOf(const Edge& edge) const { return {At(edge).parent, At(edge).out}; }
  const SenderPort& OutOf(const Edge& edge) const {
    return ports_.Out(At(edge).parent, At(edge).out);
  }
  const SenderPort& InOf(const Edge& edge) const { return ports_.In(edge.child, At(edge).in); }
  // The arc that the edge leaves its sender by.
  std::int32_t FirstArcOf(const Edge& edge) const { return ports_.Hops(OutOf(edge)).front(); }
  // Asks for what is looked at soon.
  void Prefetch(const Edge& edge, Rank rank) const {
    __builtin_prefetch(&At(edge));
    __builtin_prefetch(&labels_[edge.tree * ranks_ + edge.child]);
    __builtin_prefetch(&labels_[edge.tree * ranks_ + rank]);
  }

  // Whether so many trees more can leave by the port.
  bool HasRoom(const SenderPort& port, std::int64_t trees) const;
  // Whether two edges could change senders, given new ports; for that they are without their old
  // ones.
  bool HasRoomForBoth(const Edge& x, const SenderPort& out_x, const Edge& y,
                      const SenderPort& out_y);
  // Gives the edge another sender, which has a smaller label than the child.
  void SetSender(const Edge& edge, const Sender& sender);

  // Sets all labels to depths.
  Heights SetLabels();

  // As a forest again: same k, scale and method.
  Forest Collect(const Forest& original) const;

 private:
  struct Entry {
    Rank parent = kNoRank;
    std::uint16_t out = 0;
    std::uint16_t in = 0;
  };
  const Entry& At(const Edge& edge) const { return entries_[edge.tree * ranks_ + edge.child]; }
  Entry& At(const Edge& edge) { return entries_[edge.tree * ranks_ + edge.child]; }

  void Add(const RoutingTable& routes, const RoutedTree& routed);
  void Take(const SenderPort& port, std::int64_t trees);
  std::int32_t SetLabelsOf(std::uint32_t tree);
  // A tree's edge into some rank.
  struct Use {
    Rank parent = kNoRank;
    std::uint16_t out = 0;
    std::uint16_t in = 0;
    std::uint32_t tree = 0;
  };
  void CollectRoutes(RoutingTable& routes) const;
  void AddRoutesTo(Rank child, std::vector<Use>& uses, RoutingTable& routes) const;

  const Problem& problem_;
  const SenderPorts& ports_;
  std::size_t ranks_;
  std::vector<Rank> roots_;  // by tree, ascending
  std::vector<std::int64_t> counts_;
  std::vector<std::int32_t> heights_;
  std::vector<Entry> entries_;      // tree-major
  std::vector<Label> labels_;       // the same
  std::vector<std::int64_t> left_;  // by arc
};

}  // namespace espalier::forest
