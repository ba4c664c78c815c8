#include "collective/forest/trees/sender_exchange.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "collective/forest/trees/sender_ports.h"
#include "collective/forest/trees/sender_trees.h"

namespace espalier::forest {
namespace {

using Edge = SenderTrees::Edge;
using Label = SenderTrees::Label;
using Sender = SenderTrees::Sender;

constexpr std::size_t kLowest = 24;      // ranks of a tree that are offered by hubs of many
constexpr std::size_t kFewSenders = 64;  // of a hub: all are looked at
constexpr std::size_t kOffers = 8;       // of these
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 28;
constexpr Label kShallow = 2;  // what hangs below a higher sender is left there
constexpr Label kGood = 3;     // a sender that is high enough to look no further

// How hard one round tries.
struct Effort {
  std::size_t edges;  // of one sender that are looked at for one to change with
  int power;
  bool worst_only;  // trees above the mean
};
constexpr Effort kRounds[] = {{8, 2, false}, {16, 2, false}, {32, 3, true}, {64, 4, true},
                              {64, 4, true}, {64, 4, true},  {64, 4, true}, {64, 4, true}};

class Exchange {
 public:
  Exchange(const Problem& problem, const SenderPorts& ports, SenderTrees& trees, std::int64_t steps)
      : ports_(ports),
        trees_(trees),
        steps_left_(steps),
        edges_of_(problem.arcs.size()),
        last_child_(trees.TreeCountOf() * trees.RankCount(), kNoRank),
        first_tree_(trees.RankCount() + 1, 0) {
    for (std::uint32_t t = 0; t < trees.TreeCountOf(); ++t) {
      ++first_tree_[trees.RootOf(t) + std::size_t{1}];
      for (std::size_t r = 0; r < trees.RankCount(); ++r) {
        if (r != trees.RootOf(t)) Note({t, static_cast<Rank>(r)});
      }
    }
    for (std::size_t r = 0; r < trees.RankCount(); ++r) first_tree_[r + 1] += first_tree_[r];
  }

  // Works on trees that are higher than `above`.
  void Round(const Effort& effort, std::int32_t above, const Control& control) {
    effort_ = effort;
    ListLowest();
    for (std::uint32_t t = 0; t < trees_.TreeCountOf(); ++t) {
      if (trees_.HeightOf(t) <= above) continue;
      for (std::size_t r = 0; r < trees_.RankCount() && steps_left_ > 0; ++r) {
        if (r != trees_.RootOf(t)) Improve({t, static_cast<Rank>(r)});
      }
      if (steps_left_ <= 0 || control.IsCancelled()) return;
    }
  }
  bool IsExhausted() const { return steps_left_ <= 0; }

 private:
  // Enters an edge under the arc by which it leaves its sender. Where it was before, it stays
  // listed until it is met there.
  void Note(const Edge& edge) {
    edges_of_[static_cast<std::size_t>(trees_.FirstArcOf(edge))].push_back(edge);
    last_child_[edge.tree * trees_.RankCount() + trees_.SenderOf(edge).rank] = edge.child;
  }
  bool Uses(const Edge& edge, Rank rank, std::int32_t arc) const {
    return trees_.SenderOf(edge).rank == rank && trees_.FirstArcOf(edge) == arc;
  }

  // The ranks with the smallest labels of every tree.
  void ListLowest() {
    const std::size_t ranks = trees_.RankCount();
    lowest_.assign(trees_.TreeCountOf() * kLowest, kNoRank);
    std::vector<std::size_t> place;  // by label
    for (std::uint32_t t = 0; t < trees_.TreeCountOf(); ++t) {
      place.assign(static_cast<std::size_t>(trees_.HeightOf(t)) + 2, 0);
      for (std::size_t r = 0; r < ranks; ++r) {
        ++place[trees_.LabelOf(t, static_cast<Rank>(r)) + std::size_t{1}];
      }
      for (std::size_t d = 0; d + 1 < place.size(); ++d) place[d + 1] += place[d];
      for (std::size_t r = 0; r < ranks; ++r) {
        const std::size_t at = place[trees_.LabelOf(t, static_cast<Rank>(r))]++;
        if (at < kLowest) lowest_[t * kLowest + at] = static_cast<Rank>(r);
      }
    }
  }

  void Improve(const Edge& edge) {
    const Label now = trees_.LabelOf(edge.tree, trees_.SenderOf(edge).rank);
    if (now < kShallow) return;
    ListOffers(edge, now);
    const SenderPort& in = trees_.InOf(edge);
    for (const auto& [label, rank] : offers_) {
      --steps_left_;
      const auto place = ports_.FindOut(rank, in.hub);
      if (!place || !GoTogether(ports_.Out(rank, *place), in)) continue;
      if (TakeRoom(edge, {rank, *place}) || ChangeWithOne(edge, {rank, *place})) return;
    }
  }

  void ListOffers(const Edge& edge, Label now) {
    offers_.clear();
    const auto offer = [&](Rank rank) {
      const Label label = trees_.LabelOf(edge.tree, rank);
      if (label < now && rank != edge.child) offers_.emplace_back(label, rank);
    };
    const auto senders = ports_.Senders(trees_.InOf(edge).hub);
    if (senders.size() > kFewSenders) {
      for (std::size_t i = 0; i < kLowest; ++i) {
        const Rank rank = lowest_[edge.tree * kLowest + i];
        if (rank != kNoRank) offer(rank);
      }
      return;
    }
    for (const Rank rank : senders) offer(rank);
    std::sort(offers_.begin(), offers_.end());
    if (offers_.size() > kOffers) offers_.resize(kOffers);
  }

  // Whether the way passes no switch twice.
  bool GoTogether(const SenderPort& out, const SenderPort& in) const {
    const auto up = ports_.Hops(out);
    const auto down = ports_.Hops(in);
    for (std::size_t u = 0; u + 1 < up.size(); ++u) {
      for (std::size_t d = 0; d + 1 < down.size(); ++d) {
        if (ports_.HeadOf(up[u]) == ports_.HeadOf(down[d])) return false;
      }
    }
    return true;
  }

  bool TakeRoom(const Edge& edge, const Sender& sender) {
    const SenderPort& port = ports_.Out(sender.rank, sender.out);
    if (!trees_.HasRoom(port, trees_.CountOf(edge.tree))) return false;
    trees_.SetSender(edge, sender);
    Note(edge);
    return true;
  }

  double Weigh(std::uint32_t tree, Rank rank) const {
    const double label = trees_.LabelOf(tree, rank);
    double weight = label * label;
    for (int i = 2; i < effort_.power; ++i) weight *= label;
    return weight;
  }

  // An edge that gives its sender up, and the port by which it goes on from the other's.
  struct Change {
    Edge edge;
    std::uint16_t out = 0;
    double gain = 0;
  };

  bool ChangeWithOne(const Edge& edge, const Sender& sender) {
    const Sender old = trees_.SenderOf(edge);
    const std::optional<Change> best = FindChange(edge, old, sender);
    if (!best) return false;
    trees_.SetSender(edge, sender);
    trees_.SetSender(best->edge, {old.rank, best->out});
    Note(edge);
    Note(best->edge);
    return true;
  }

  std::optional<Change> FindChange(const Edge& edge, const Sender& old, const Sender& sender) {
    std::optional<Change> best;
    const std::int32_t arc = ports_.Hops(ports_.Out(sender.rank, sender.out)).front();
    const auto look = [&](const Edge& other) {
      const auto change = Consider(edge, old, sender, other, best ? best->gain : 0);
      if (change) best = change;
    };
    // Trees that begin at the old sender.
    for (std::uint32_t t = first_tree_[old.rank]; t < first_tree_[old.rank + std::size_t{1}]; ++t) {
      --steps_left_;
      const Edge other{t, last_child_[t * trees_.RankCount() + sender.rank]};
      if (other.child != kNoRank && Uses(other, sender.rank, arc)) look(other);
    }
    std::vector<Edge>& edges = edges_of_[static_cast<std::size_t>(arc)];
    if (best || edges.empty()) return best;
    std::size_t at = next_++ % edges.size();
    for (std::size_t i = 0; i < std::min(edges.size(), effort_.edges); ++i) {
      trees_.Prefetch(edges[(at + i) % edges.size()], old.rank);
    }
    for (std::size_t i = 0; i < effort_.edges && i < edges.size(); ++i, ++at) {
      --steps_left_;
      if (at >= edges.size()) at = 0;
      if (!Uses(edges[at], sender.rank, arc)) {
        edges[at] = edges.back();
        edges.pop_back();
        continue;
      }
      look(edges[at]);
      if (best && trees_.LabelOf(best->edge.tree, old.rank) <= kGood) break;
    }
    return best;
  }

  // The edge goes to `sender`, and the other, which is its, to the edge's old one; if that is
  // possible and wins more than `least`.
  std::optional<Change> Consider(const Edge& edge, const Sender& old, const Sender& sender,
                                 const Edge& other, double least) {
    if (trees_.LabelOf(other.tree, old.rank) >= trees_.LabelOf(other.tree, other.child) ||
        other.tree == edge.tree || trees_.CountOf(other.tree) != trees_.CountOf(edge.tree)) {
      return std::nullopt;
    }
    const double gain = Weigh(edge.tree, old.rank) - Weigh(edge.tree, sender.rank) +
                        Weigh(other.tree, sender.rank) - Weigh(other.tree, old.rank);
    if (gain <= least) return std::nullopt;
    const SenderPort& port = ports_.Out(sender.rank, sender.out);
    const SenderPort& in = trees_.InOf(other);
    std::uint16_t out = old.out;
    if (in.hub != port.hub) {
      const auto found = ports_.FindOut(old.rank, in.hub);
      if (!found || !trees_.HasRoomForBoth(edge, port, other, ports_.Out(old.rank, *found))) {
        return std::nullopt;
      }
      out = *found;
    }
    if (!GoTogether(ports_.Out(old.rank, out), in)) return std::nullopt;
    return Change{other, out, gain};
  }

  const SenderPorts& ports_;
  SenderTrees& trees_;
  std::int64_t steps_left_;
  Effort effort_{};
  std::vector<std::vector<Edge>> edges_of_;  // by arc
  std::vector<Rank> last_child_;             // by tree, then sender: some child of it, or none
  std::vector<std::uint32_t> first_tree_;    // by root
  std::vector<Rank> lowest_;                 // kLowest a tree
  std::vector<std::pair<Label, Rank>> offers_;
  std::size_t next_ = 0;
};

}  // namespace

void ExchangeSenders(const Problem& problem, const TreeCount& count,
                     const SenderExchangeOptions& options, Forest& forest, const Control& control) {
  const auto ports = SenderPorts::Find(problem, count, forest);
  if (!ports) return;
  SenderTrees trees(problem, count, forest, *ports);
  const Heights before = trees.SetLabels();
  Heights heights = before;
  const auto edges = static_cast<std::int64_t>(trees.TreeCountOf() * trees.RankCount());
  const std::int64_t steps = std::min(edges * options.steps_an_edge, kMaxSteps);
  Exchange exchange(problem, *ports, trees, steps);
  for (const Effort& effort : kRounds) {
    if (heights.max <= options.low_enough || exchange.IsExhausted()) break;
    const auto mean = static_cast<std::int32_t>(heights.mean);
    const std::int32_t above =
        effort.worst_only ? std::max(options.low_enough, mean) : options.low_enough;
    exchange.Round(effort, above, control);
    if (control.IsCancelled()) return;
    const Heights last = std::exchange(heights, trees.SetLabels());
    if (heights.max == last.max && heights.mean > 0.98 * last.mean) break;
  }
  if (std::pair(heights.max, heights.mean) < std::pair(before.max, before.mean)) {
    forest = trees.Collect(forest);
  }
}

}  // namespace espalier::forest
