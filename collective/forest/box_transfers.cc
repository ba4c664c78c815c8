#include "collective/forest/box_transfers.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace espalier::forest {
namespace {

class Transferrer {
 public:
  Transferrer(const Problem& problem, const TreeCount& count, const Boxes& boxes)
      : problem_(problem), count_(count), boxes_(boxes) {}

  std::optional<BoxTransfers> Plan() {
    made_.left = count_.capacity;
    IndexArcs();
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
    const auto box_count = static_cast<std::int32_t>(boxes_.ranks.size());
    for (std::size_t r = 0; r < ranks; ++r) {
      made_.begin.push_back(made_.transfers.size());
      const std::int64_t trees = count_.trees_per_weight * problem_.weight[r];
      const std::int32_t own = boxes_.box_of[r];
      for (std::int32_t step = 1; step < box_count && trees > 0; ++step) {
        if (!Send(static_cast<Rank>(r), (own + step) % box_count, trees)) return std::nullopt;
      }
    }
    made_.begin.push_back(made_.transfers.size());
    return std::move(made_);
  }

 private:
  using ArcLists = std::vector<std::vector<std::int32_t>>;

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

  // Breadth first through the inner nodes of the rank's box, to (or back from) the fabric.
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
        } else {
          open.push({next, std::move(hops)});
        }
      }
    }
    return ports;
  }

  // Whether the switches of the fabric on the way (those of no host) never fall in tier.
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

  // All trees of the root to one box; false where not all find a way.
  bool Send(Rank root, std::int32_t box, std::int64_t trees) {
    const std::vector<Rank>& theirs = boxes_.ranks[static_cast<std::size_t>(box)];
    const std::size_t place = place_[root];
    const Rank twin = theirs[place % theirs.size()];
    trees -= Try(root, twin, box, place, trees);
    for (std::size_t i = 1; i < theirs.size() && trees > 0; ++i) {
      trees -= Try(root, theirs[(place + i) % theirs.size()], box, place, trees);
    }
    if (trees == 0) return true;
    const std::vector<Rank>& ours = boxes_.ranks[static_cast<std::size_t>(boxes_.box_of[root])];
    for (std::size_t e = 1; e < ours.size() && trees > 0; ++e) {
      const Rank exit = ours[(place + e) % ours.size()];
      for (std::size_t i = 0; i < theirs.size() && trees > 0; ++i) {
        trees -= Try(exit, theirs[(place_[exit] + i) % theirs.size()], box, place, trees);
      }
    }
    return trees == 0;
  }

  // Sends up to `trees` from exit to entry, over the switches in turn from `first` on; how many.
  std::int64_t Try(Rank exit, Rank entry, std::int32_t box, std::size_t first, std::int64_t trees) {
    std::int64_t sent = 0;
    const std::vector<Port>& outs = made_.out_ports[exit];
    const std::vector<Port>& ins = made_.in_ports[entry];
    for (std::size_t i = 0; i < outs.size() && sent < trees; ++i) {
      const std::size_t o = (first + i) % outs.size();
      const std::int64_t out_room = RoomOn(outs[o].hops);
      if (out_room == 0) continue;
      // Ports are found in the same order in boxes that are alike.
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
        made_.transfers.push_back(
            {box, exit, entry, static_cast<std::int32_t>(o), static_cast<std::int32_t>(n), count});
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
  std::vector<std::size_t> place_;  // by rank: its place in its box
};

}  // namespace

std::optional<BoxTransfers> PlanTransfers(const Problem& problem, const TreeCount& count,
                                          const Boxes& boxes) {
  return Transferrer(problem, count, boxes).Plan();
}

}  // namespace espalier::forest
