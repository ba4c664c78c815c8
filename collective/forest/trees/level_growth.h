#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective/forest/model/control.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/trees/port_trees.h"
#include "collective/forest/trees/sender_ports.h"

namespace espalier::forest {

// Trees that grow from their roots again, all at once and level by level, while there is room.
// Not thread-safe.
class LevelGrowth {
 public:
  // All must stay alive. No tree has edges yet.
  LevelGrowth(const Problem& problem, const SenderPorts& ports, PortTrees& trees);

  // Until no tree grows any more; false when cancelled.
  bool Grow(const Control& control);
  // The edges that got no sender.
  std::vector<PortTrees::Edge> Pending() const;

 private:
  using Edge = PortTrees::Edge;
  using Sender = PortTrees::Sender;
  // In the order of a tree, those that send next are [done, reached); after them come those that
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
  const SenderPorts& ports_;
  PortTrees& trees_;
  std::size_t ranks_;
  std::vector<Progress> progress_;  // by tree
  std::vector<Rank> order_;         // tree-major

  // Of the tree that is growing.
  std::vector<std::int32_t> hubs_;            // switches where ranks wait
  std::vector<Rank> first_;                   // by node: a rank that waits there
  std::vector<Rank> next_;                    // by rank: another that waits at the same hub
  std::vector<std::vector<Sender>> senders_;  // by node
  std::vector<std::uint8_t> waits_;           // by rank: for one that is linked to it
  std::vector<Offer> offers_;                 // by such a rank: the one with most room
  std::vector<Rank> offered_;
  std::size_t turn_ = 0;
};

}  // namespace espalier::forest
