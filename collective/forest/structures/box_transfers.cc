#include "collective/forest/structures/box_transfers.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "common/os/large_memory.h"

namespace espalier::forest {
namespace {

constexpr std::size_t kMaxPorts = 1 << 16;  // Transfer stores 16 bits

// Problem: every root's trees have to reach every other box over a port out of the root's box and a
// port into the other box at the same switch, and all arcs of the ports have limits. This is an
// integral multicommodity flow, for which no fast exact algorithm is known.
//
// Idea: a greedy choice. The first choice is the one that fits a whole, symmetric fabric exactly
// and spreads the load: the rank with the same index, the switches in turn. If failures have
// removed capacity, other entries are tried, then other exits. If that fails too, everything is
// tried again in another order, which serves the tightest boxes first.
//
// Invariant: made_.left is the capacity less the use of all transfers so far, and never negative.
// Transfers are never taken back.
//
// Cost: O(ranks * boxes) if the first choices hold; a failed one costs the ranks of both boxes
// times their ports.
// Source: this project, after hand-made schedules with trees between boxes.
class Transferrer {
 public:
  Transferrer(const Problem& problem, const TreeCount& count, const Boxes& boxes)
      : problem_(problem), count_(count), boxes_(boxes) {}

  std::optional<BoxTransfers> Assign(TransferOrder order) {
    made_.left = count_.capacity;
    IndexArcs();
    const bool tightest_first = order != TransferOrder::kByRoot;
    roomiest_first_ = tightest_first;
    spreads_ = order == TransferOrder::kSpread;
    const auto ranks = static_cast<std::size_t>(problem_.rank_count);
    place_.resize(ranks);
    for (const std::vector<Rank>& box : boxes_.ranks) {
      for (std::size_t i = 0; i < box.size(); ++i) place_[box[i]] = i;
    }
    made_.out_ports.resize(ranks);
    made_.in_ports.resize(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      made_.out_ports[r] = FindPorts(static_cast<std::int32_t>(r), arcs_out_, true);
      made_.in_ports[r] = FindPorts(static_cast<std::int32_t>(r), arcs_in_, false);
    }
    const std::vector<Sending> sendings = ListSendings(tightest_first);
    ReserveLarge(made_.transfers, sendings.size());
    for (const Sending& sending : sendings) {
      if (!Send(sending.root, sending.box, TreesOf(sending.root))) return std::nullopt;
    }
    if (tightest_first) {
      std::ranges::stable_sort(made_.transfers, {}, [](const Transfer& transfer) {
        return std::pair(transfer.root, transfer.box);
      });
    }
    made_.begin.assign(ranks + 1, 0);
    for (const Transfer& transfer : made_.transfers) ++made_.begin[transfer.root + std::size_t{1}];
    for (std::size_t r = 0; r < ranks; ++r) made_.begin[r + 1] += made_.begin[r];
    return std::move(made_);
  }

 private:
  using ArcLists = std::vector<std::vector<std::int32_t>>;
  // All trees of a root to one box.
  struct Sending {
    Rank root = 0;
    std::int32_t box = 0;
  };

  std::int64_t TreesOf(std::size_t root) const {
    return count_.trees_per_weight * problem_.weight[root];
  }

  std::vector<Sending> ListSendings(bool tightest_first) const {
    const auto box_count = static_cast<std::int32_t>(boxes_.ranks.size());
    std::vector<Sending> sendings;
    ReserveLarge(sendings, made_.in_ports.size() * boxes_.ranks.size());
    for (std::size_t r = 0; r < made_.in_ports.size(); ++r) {
      if (problem_.weight[r] == 0) continue;
      for (std::int32_t step = 1; step < box_count; ++step) {
        sendings.push_back({static_cast<Rank>(r), (boxes_.box_of[r] + step) % box_count});
      }
    }
    if (!tightest_first) return sendings;
    const std::vector<Use> use = ComputeUse();
    std::ranges::stable_sort(sendings, std::greater{}, [&](const Sending& sending) {
      const std::int32_t from = boxes_.box_of[sending.root];
      return use[static_cast<std::size_t>(from)].out +
             use[static_cast<std::size_t>(sending.box)].in;
    });
    return sendings;
  }

  // The fraction of the capacity between a box and the fabric that its trees will need.
  struct Use {
    double in = 0;
    double out = 0;
  };
  std::vector<Use> ComputeUse() const {
    std::vector<Use> capacity(boxes_.ranks.size());
    for (std::size_t a = 0; a < problem_.arcs.size(); ++a) {
      const std::int32_t from = boxes_.box_of[static_cast<std::size_t>(problem_.arcs[a].tail)];
      const std::int32_t to = boxes_.box_of[static_cast<std::size_t>(problem_.arcs[a].head)];
      const auto units = static_cast<double>(count_.capacity[a]);
      if (from == Boxes::kFabric && to != from) capacity[static_cast<std::size_t>(to)].in += units;
      if (to == Boxes::kFabric && to != from) capacity[static_cast<std::size_t>(from)].out += units;
    }
    const auto others = static_cast<double>(boxes_.ranks.size() - 1);
    const auto all = static_cast<double>(count_.trees_per_weight * problem_.TotalWeight());
    std::vector<Use> use(capacity.size());
    for (std::size_t b = 0; b < use.size(); ++b) {
      double own = 0;
      for (const Rank rank : boxes_.ranks[b]) own += static_cast<double>(TreesOf(rank));
      use[b] = {(all - own) / std::max(capacity[b].in, 1.0),
                own * others / std::max(capacity[b].out, 1.0)};
    }
    return use;
  }

  void IndexArcs() {
    arcs_out_.resize(static_cast<std::size_t>(problem_.node_count));
    arcs_in_.resize(arcs_out_.size());
    for (std::size_t a = 0; a < problem_.arcs.size(); ++a) {
      const Arc& arc = problem_.arcs[a];
      if (count_.capacity[a] == 0) continue;
      arcs_out_[static_cast<std::size_t>(arc.tail)].push_back(static_cast<std::int32_t>(a));
      arcs_in_[static_cast<std::size_t>(arc.head)].push_back(static_cast<std::int32_t>(a));
    }
  }

  // Searches breadth-first through the inner nodes of the rank's box to (or back from) the fabric.
  std::vector<Port> FindPorts(std::int32_t rank, const ArcLists& arcs_of, bool outwards) const {
    struct Reached {
      std::int32_t node;
      std::vector<std::int32_t> hops;
    };
    std::vector<Port> ports;
    std::vector<std::int32_t> seen = {rank};
    std::queue<Reached> open;
    open.push({rank, {}});
    for (; !open.empty(); open.pop()) {
      for (const std::int32_t a : arcs_of[static_cast<std::size_t>(open.front().node)]) {
        const Arc& arc = problem_.arcs[static_cast<std::size_t>(a)];
        const std::int32_t next = outwards ? arc.head : arc.tail;
        if (problem_.IsRank(next) || std::ranges::count(seen, next) > 0) continue;
        seen.push_back(next);
        std::vector<std::int32_t> hops = open.front().hops;
        hops.insert(outwards ? hops.end() : hops.begin(), a);
        if (boxes_.box_of[static_cast<std::size_t>(next)] == Boxes::kFabric) {
          ports.push_back({next, Rises(hops, outwards), std::move(hops)});
          if (ports.size() == kMaxPorts) return ports;
        } else {
          open.push({next, std::move(hops)});
        }
      }
    }
    return ports;
  }

  // Returns whether the fabric switches on the route (those of no host) never fall in tier.
  bool Rises(std::span<const std::int32_t> hops, bool outwards) const {
    std::int32_t last = 0;
    for (std::size_t i = 0; i < hops.size(); ++i) {
      const std::size_t h = outwards ? i : hops.size() - 1 - i;
      const Arc& arc = problem_.arcs[static_cast<std::size_t>(hops[h])];
      const auto node = static_cast<std::size_t>(outwards ? arc.head : arc.tail);
      if (!problem_.in_fabric[node]) continue;
      if (problem_.tier[node] < last) return false;
      last = problem_.tier[node];
    }
    return true;
  }

  std::int64_t RoomOn(std::span<const std::int32_t> hops) const {
    std::int64_t room = std::numeric_limits<std::int64_t>::max();
    for (const std::int32_t hop : hops) {
      room = std::min(room, made_.left[static_cast<std::size_t>(hop)]);
    }
    return room;
  }

  // Sends all trees of the root to one box; returns false if some find no route.
  bool Send(Rank root, std::int32_t box, std::int64_t trees) {
    const std::vector<Rank>& theirs = boxes_.ranks[static_cast<std::size_t>(box)];
    const std::size_t place = place_[root];
    if (spreads_) {
      trees = Spread(root, box, trees);
    } else {
      trees -= Try(root, root, theirs[place % theirs.size()], box, trees);
    }
    if (trees == 0) return true;
    const std::vector<Rank> entries = OrderFrom(theirs, place, made_.in_ports);
    for (std::size_t i = 0; i < entries.size() && trees > 0; ++i) {
      trees -= Try(root, root, entries[i], box, trees);
    }
    if (trees == 0) return true;
    const std::vector<Rank>& ours = boxes_.ranks[static_cast<std::size_t>(boxes_.box_of[root])];
    for (const Rank exit : OrderFrom(ours, place, made_.out_ports)) {
      for (std::size_t i = 0; i < theirs.size() && trees > 0; ++i) {
        const std::size_t at = roomiest_first_ ? i : (place_[exit] + i) % theirs.size();
        trees -= Try(root, exit, roomiest_first_ ? entries[at] : theirs[at], box, trees);
      }
    }
    return trees == 0;
  }

  // Spreads the trees, each part to the rank of the box whose ports have the most room. Returns the
  // number left over when the root's own ports are full.
  std::int64_t Spread(Rank root, std::int32_t box, std::int64_t trees) {
    const std::vector<Rank>& theirs = boxes_.ranks[static_cast<std::size_t>(box)];
    const std::int64_t part =
        std::max<std::int64_t>(trees / static_cast<std::int64_t>(theirs.size()), 1);
    for (bool moved = true; moved && trees > 0;) {
      moved = false;
      for (const Rank entry : OrderFrom(theirs, place_[root], made_.in_ports)) {
        const std::int64_t sent = Try(root, root, entry, box, std::min(part, trees));
        trees -= sent;
        moved = sent > 0;
        if (moved) break;
      }
    }
    return trees;
  }

  // Returns the ranks of a box in cyclic order from an index on, or by the room of their ports.
  std::vector<Rank> OrderFrom(std::span<const Rank> ranks, std::size_t place,
                              std::span<const std::vector<Port>> ports) const {
    std::vector<Rank> order;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      order.push_back(ranks[(place + i) % ranks.size()]);
    }
    if (!roomiest_first_) return order;
    std::ranges::stable_sort(order, std::greater{}, [&](Rank rank) {
      std::int64_t room = 0;
      for (const Port& port : ports[rank]) room = std::max(room, RoomOn(port.hops));
      return room;
    });
    return order;
  }

  // Sends up to `trees` of the root from exit to entry, over the switches in turn from the root's
  // index on. Returns how many.
  std::int64_t Try(Rank root, Rank exit, Rank entry, std::int32_t box, std::int64_t trees) {
    const std::size_t first = place_[root];
    std::int64_t sent = 0;
    const std::vector<Port>& outs = made_.out_ports[exit];
    const std::vector<Port>& ins = made_.in_ports[entry];
    for (std::size_t i = 0; i < outs.size() && sent < trees; ++i) {
      const std::size_t o = (first + i) % outs.size();
      const std::int64_t out_room = RoomOn(outs[o].hops);
      if (out_room == 0) continue;
      // Ports are found in the same order in equal boxes.
      for (std::size_t j = 0; j < ins.size() && sent < trees; ++j) {
        const std::size_t n = (o + j) % ins.size();
        if (ins[n].fabric_switch != outs[o].fabric_switch) continue;
        const std::int64_t count =
            std::min({trees - sent, RoomOn(outs[o].hops), RoomOn(ins[n].hops)});
        if (count == 0) continue;
        for (const std::int32_t hop : outs[o].hops)
          made_.left[static_cast<std::size_t>(hop)] -= count;
        for (const std::int32_t hop : ins[n].hops)
          made_.left[static_cast<std::size_t>(hop)] -= count;
        made_.transfers.push_back({root, exit, entry, static_cast<std::uint16_t>(o),
                                   static_cast<std::uint16_t>(n), box, count});
        sent += count;
      }
    }
    return sent;
  }

  const Problem& problem_;
  const TreeCount& count_;
  const Boxes& boxes_;
  BoxTransfers made_;
  ArcLists arcs_out_;
  ArcLists arcs_in_;
  std::vector<std::size_t> place_;  // by rank: its index in its box
  bool roomiest_first_ = false;
  bool spreads_ = false;
};

}  // namespace

std::optional<BoxTransfers> AssignTransfers(const Problem& problem, const TreeCount& count,
                                            const Boxes& boxes, TransferOrder order) {
  return Transferrer(problem, count, boxes).Assign(order);
}

}  // namespace espalier::forest
