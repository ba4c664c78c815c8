#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/trees/sender_ports.h"

namespace espalier::forest {

// The trees of a forest as a table: by which port each rank is entered in each tree, from whom and
// by which port of the sender; and what the links have left. Trees are classes that are divided
// so that every edge takes one route.
//
// Idea. A route is a way from the sender out to a hub and a way from the hub in to the receiver
// (SenderPorts), and only the loads of these halves count: any rank with a way out to the hub that
// has room can be the sender. Invariant: what a link has left is its capacity less the ways in of
// all edges and the ways out of those that have a sender.
// Cost: Attach, Detach and SetIn take a step for each hop, Divide one for each rank, and Collect
// one for each edge. Memory: 4 bytes an edge.
// Not thread-safe.
class PortTrees {
 public:
  // The edge of a tree that ends at a rank.
  struct Edge {
    std::uint32_t tree = 0;
    Rank child = kNoRank;
  };
  struct Sender {
    Rank rank = kNoRank;
    std::uint16_t out = 0;  // place of its port
  };

  // Takes the ports of entry from the forest and leaves its senders out: every rank but the roots
  // has no parent yet. All must stay alive but the forest.
  PortTrees(const Problem& problem, const TreeCount& count, const Forest& forest,
            const SenderPorts& ports);

  // The trees of `count` on a network without switches, without edges.
  PortTrees(const Problem& problem, const TreeCount& count, const SenderPorts& ports);

  std::uint32_t TreeCountOf() const { return static_cast<std::uint32_t>(roots_.size()); }
  std::size_t RankCount() const { return ranks_; }
  Rank RootOf(std::uint32_t tree) const { return roots_[tree]; }
  std::int64_t CountOf(std::uint32_t tree) const { return counts_[tree]; }
  // Of all ranks; kNoRank where there is none.
  std::span<const Rank> Parents(std::uint32_t tree) const {
    return {parents_.data() + tree * ranks_, ranks_};
  }
  bool IsAttached(const Edge& edge) const {
    return Parents(edge.tree)[edge.child] != kNoRank || roots_[edge.tree] == edge.child;
  }

  const SenderPort& InOf(const Edge& edge) const {
    return ports_.In(edge.child, in_[edge.tree * ranks_ + edge.child]);
  }
  std::uint16_t PlaceOfIn(const Edge& edge) const { return in_[edge.tree * ranks_ + edge.child]; }
  // Lets the edge come in by another port.
  void SetIn(const Edge& edge, std::uint16_t place);
  // Of an edge that has a sender.
  Sender SenderOf(const Edge& edge) const {
    const std::size_t at = edge.tree * ranks_ + edge.child;
    return {parents_[at], out_[at]};
  }
  // How many trees more can leave by a port.
  std::int64_t RoomOf(const SenderPort& port) const;
  std::int64_t LeftOn(std::int32_t arc) const { return left_[static_cast<std::size_t>(arc)]; }
  // Gives an edge that has none a sender, or takes it away.
  void Attach(const Edge& edge, const Sender& sender);
  void Detach(const Edge& edge);

  // Leaves `count` trees in the class and puts the others into a new one, which is returned.
  std::uint32_t Divide(std::uint32_t tree, std::int64_t count);

  // All edges have senders: as a forest again.
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
  void Take(const SenderPort& port, std::int64_t trees);
  RoutingTable CollectRoutes(std::span<const std::uint32_t> order) const;
  void AddRoutesTo(Rank child, std::span<const Use> uses, RoutingTable& routes) const;

  const Problem& problem_;
  const SenderPorts& ports_;
  std::size_t ranks_;
  std::vector<Rank> roots_;  // by tree
  std::vector<std::int64_t> counts_;
  std::vector<Rank> parents_;       // tree-major
  std::vector<std::uint8_t> out_;   // the same: places of ports
  std::vector<std::uint8_t> in_;    // the same
  std::vector<std::int64_t> left_;  // by arc
};

}  // namespace espalier::forest
