#include "collective/forest/structures/hierarchical.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "collective/forest/model/routable.h"
#include "collective/forest/problem/boxes.h"
#include "collective/forest/structures/box_forest.h"
#include "collective/forest/structures/box_transfers.h"
#include "collective/forest/structures/label_trees.h"
#include "common/base/check.h"
#include "common/base/parallel.h"
#include "common/os/large_memory.h"

namespace espalier::forest {
namespace {

// Composes the forest from the transfers and the forests of the boxes.
class Composer {
 public:
  Composer(const Problem& problem, const TreeCount& count, const Boxes& boxes,
           const BoxTransfers& transfers, std::span<const BoxForests::Solved> solved, int threads)
      : problem_(problem),
        count_(count),
        boxes_(boxes),
        transfers_(transfers),
        solved_(solved),
        threads_(threads),
        ranks_(static_cast<std::size_t>(problem.rank_count)) {}

  // Returns none if the forest would be too large.
  std::optional<Forest> Compose() {
    forest_.method = Method::kHierarchical;
    forest_.rank_count = problem_.rank_count;
    forest_.trees_per_weight = count_.trees_per_weight;
    forest_.scale = count_.scale;
    forest_.inverse_rate = count_.inverse_rate;
    OpenCursors();
    // The two threads write different parts of the forest.
    bool fits = true;
    ForRanges(std::min(threads_, 2), 2, [&](std::size_t, std::size_t begin, std::size_t end) {
      if (begin == 0) AddRoutes();
      if (end == 2) fits = AddTrees();
    });
    if (!fits) return std::nullopt;
    return std::move(forest_);
  }

 private:
  // How many of the trees that a rank passes on in its box are already assigned.
  struct Cursor {
    std::size_t tree_class = 0;  // in the box's forest
    std::int64_t left = 0;       // trees left in that class
  };
  // Where the trees of the current root enter one box.
  struct Entering {
    std::size_t transfer = 0;
    std::int64_t left = 0;
    Rank entry = 0;  // the root itself in its own box
    bool own = false;
  };

  void OpenCursors() {
    place_.resize(ranks_);
    cursors_.resize(ranks_);
    for (std::size_t b = 0; b < boxes_.ranks.size(); ++b) {
      const Forest& box = *solved_[b].forest;
      std::size_t c = 0;
      for (std::size_t i = 0; i < boxes_.ranks[b].size(); ++i) {
        const Rank rank = boxes_.ranks[b][i];
        place_[rank] = static_cast<Rank>(i);
        while (c < box.classes.size() && box.classes[c].root < i) ++c;
        const bool has = c < box.classes.size() && box.classes[c].root == i;
        cursors_[rank] = {c, has ? box.classes[c].count : 0};
      }
    }
  }

  // Returns false if there are too many classes.
  bool AddTrees() {
    ReserveLarge(forest_.parents, ranks_ * ranks_);
    for (std::size_t root = 0; root < ranks_; ++root) {
      if (!AddTreesOf(static_cast<Rank>(root))) return false;
    }
    return true;
  }

  bool AddTreesOf(Rank root) {
    const std::int64_t trees = count_.trees_per_weight * problem_.weight[root];
    if (trees == 0) return true;
    entering_.assign(boxes_.ranks.size(), {});
    entering_[static_cast<std::size_t>(boxes_.box_of[root])] = {0, trees, root, true};
    for (std::size_t t = transfers_.begin[root]; t < transfers_.begin[root + std::size_t{1}]; ++t) {
      const Transfer& transfer = transfers_.transfers[t];
      Entering& entering = entering_[static_cast<std::size_t>(transfer.box)];
      if (entering.left == 0) entering = {t, transfer.count, transfer.entry, false};
    }
    for (std::int64_t done = 0; done < trees;) {
      std::int64_t step = trees - done;
      for (const Entering& entering : entering_) {
        step = std::min({step, entering.left, cursors_[entering.entry].left});
      }
      ESPALIER_CHECK(step > 0, "root={} done={}", root, done);
      if (forest_.parents.size() + ranks_ > kMaxParents) return false;
      AddClass(root, step);
      for (std::size_t b = 0; b < entering_.size(); ++b) Advance(b, step);
      done += step;
    }
    return true;
  }

  void AddClass(Rank root, std::int64_t trees) {
    forest_.classes.push_back({root, trees});
    const std::size_t begin = forest_.parents.size();
    forest_.parents.resize(begin + ranks_);
    Rank* const parents = forest_.parents.data() + begin;
    for (std::size_t b = 0; b < entering_.size(); ++b) {
      const Entering& entering = entering_[b];
      const std::span<const Rank> ranks = boxes_.ranks[b];
      const std::span<const Rank> inside =
          solved_[b].forest->Parents(cursors_[entering.entry].tree_class);
      const Rank first = ranks.front();
      if (std::size_t{ranks.back()} - first + 1 == ranks.size()) {
        // Consecutive ranks: plain additions, which the compiler vectorises.
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          parents[first + i] = static_cast<Rank>(first + inside[i]);
        }
      } else {
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          if (inside[i] != kNoRank) parents[ranks[i]] = ranks[inside[i]];
        }
      }
      parents[entering.entry] =
          entering.own ? kNoRank : transfers_.transfers[entering.transfer].exit;
    }
  }

  void Advance(std::size_t b, std::int64_t step) {
    Entering& entering = entering_[b];
    Cursor& cursor = cursors_[entering.entry];
    cursor.left -= step;
    const Forest& box = *solved_[b].forest;
    if (cursor.left == 0 && ++cursor.tree_class < box.classes.size() &&
        box.classes[cursor.tree_class].root == place_[entering.entry]) {
      cursor.left = box.classes[cursor.tree_class].count;
    }
    entering.left -= step;
    if (entering.left > 0 || entering.own) return;
    // The next transfer of this root to this box follows directly.
    const std::size_t next = entering.transfer + 1;
    if (next == transfers_.transfers.size()) return;
    const Transfer& transfer = transfers_.transfers[next];
    if (transfer.box == static_cast<std::int32_t>(b)) {
      entering = {next, transfer.count, transfer.entry, false};
    }
  }

  // Reserves room for the largest possible numbers.
  void ReserveRoutes() {
    std::size_t arcs = transfers_.transfers.size();
    std::size_t routes = arcs;
    std::size_t hops = arcs * (MostHops(transfers_.out_ports) + MostHops(transfers_.in_ports));
    for (const BoxForests::Solved& box : solved_) {
      const RoutingTable& inside = box.forest->routes;
      arcs += inside.ArcCount();
      routes += inside.RouteCount();
      hops += inside.HopCount();
    }
    forest_.routes.Reserve(arcs, routes, hops);
  }

  static std::size_t MostHops(std::span<const std::vector<Port>> ports) {
    std::size_t most = 0;
    for (const std::vector<Port>& of_rank : ports) {
      for (const Port& port : of_rank) most = std::max(most, port.hops.size());
    }
    return most;
  }

  // Adds the arcs by the rank that they enter: transfers to it and edges within its box.
  void AddRoutes() {
    ReserveRoutes();
    std::vector<std::size_t> begin(ranks_ + 1, 0);
    for (const Transfer& transfer : transfers_.transfers) ++begin[transfer.entry + std::size_t{1}];
    for (std::size_t r = 0; r < ranks_; ++r) begin[r + 1] += begin[r];
    std::vector<std::uint32_t> order;
    ReserveLarge(order, transfers_.transfers.size());
    order.resize(transfers_.transfers.size());
    std::vector<std::size_t> place(begin.begin(), begin.end() - 1);
    for (std::size_t t = 0; t < order.size(); ++t) {
      order[place[transfers_.transfers[t].entry]++] = static_cast<std::uint32_t>(t);
    }
    for (std::size_t to = 0; to < ranks_; ++to) {
      const std::span<std::uint32_t> into(order.data() + begin[to], begin[to + 1] - begin[to]);
      const auto exit_of = [&](std::uint32_t t) { return transfers_.transfers[t].exit; };
      if (!std::ranges::is_sorted(into, {}, exit_of)) {
        std::ranges::stable_sort(into, {}, exit_of);
      }
      AddRoutesInto(static_cast<Rank>(to), into);
    }
    forest_.routes.Index(problem_.rank_count);
  }

  void AddRoutesInto(Rank to, std::span<const std::uint32_t> into) {
    const auto b = static_cast<std::size_t>(boxes_.box_of[to]);
    std::size_t t = 0;
    const auto add_transfers_before = [&](std::size_t rank) {
      while (t < into.size() && transfers_.transfers[into[t]].exit < rank) {
        t += AddTransferArc(into.subspan(t));
      }
    };
    for (std::size_t i = 0; i < boxes_.ranks[b].size(); ++i) {
      const Rank from = boxes_.ranks[b][i];
      const std::int32_t arc = solved_[b].forest->routes.Find(static_cast<Rank>(i), place_[to]);
      if (arc < 0) continue;
      add_transfers_before(from);
      AddInnerArc(from, to, b, static_cast<std::size_t>(arc));
    }
    add_transfers_before(ranks_);
  }

  // Adds all transfers between the two ranks of the first one; returns how many there are.
  std::size_t AddTransferArc(std::span<const std::uint32_t> into) {
    const Transfer& first = transfers_.transfers[into.front()];
    forest_.routes.AddArc(first.exit, first.entry);
    bool routable = true;
    std::size_t n = 0;
    while (n < into.size() && transfers_.transfers[into[n]].exit == first.exit) {
      const Transfer& transfer = transfers_.transfers[into[n]];
      const Port& out =
          transfers_.out_ports[transfer.exit][static_cast<std::size_t>(transfer.out_port)];
      const Port& in =
          transfers_.in_ports[transfer.entry][static_cast<std::size_t>(transfer.in_port)];
      std::int64_t trees = 0;
      while (n < into.size() && transfers_.transfers[into[n]].exit == transfer.exit &&
             transfers_.transfers[into[n]].out_port == transfer.out_port &&
             transfers_.transfers[into[n]].in_port == transfer.in_port) {
        trees += transfers_.transfers[into[n++]].count;
      }
      forest_.routes.AddRoute(trees, out.hops, in.hops);
      routable = routable && out.routable && in.routable;
    }
    if (!routable) ++forest_.unroutable_edges;
    return n;
  }

  void AddInnerArc(Rank from, Rank to, std::size_t b, std::size_t arc) {
    const RoutingTable& routes = solved_[b].forest->routes;
    forest_.routes.AddArc(from, to);
    bool routable = true;
    for (const Route& route : routes.Routes(arc)) {
      hops_.clear();
      for (const std::int32_t hop : routes.Hops(route)) {
        hops_.push_back(solved_[b].arc[static_cast<std::size_t>(hop)]);
      }
      forest_.routes.AddRoute(route.count, hops_);
      routable = routable && (hops_.size() <= 2 || IsRoutable(problem_, hops_));
    }
    if (!routable) ++forest_.unroutable_edges;
  }

  const Problem& problem_;
  const TreeCount& count_;
  const Boxes& boxes_;
  const BoxTransfers& transfers_;
  std::span<const BoxForests::Solved> solved_;
  int threads_;
  std::size_t ranks_;
  Forest forest_;
  std::vector<Rank> place_;         // by rank: its index in its box
  std::vector<Cursor> cursors_;     // by rank
  std::vector<Entering> entering_;  // by box
  std::vector<std::int32_t> hops_;
};

Result<std::optional<Forest>> TryBoxes(const Problem& problem, const TreeCount& count,
                                       const Boxes& boxes, TransferOrder order,
                                       std::int64_t height_steps, const Control& control) {
  const auto transfers = AssignTransfers(problem, count, boxes, order);
  if (!transfers) return std::nullopt;
  std::vector<std::int64_t> roots(static_cast<std::size_t>(problem.rank_count));
  for (std::size_t r = 0; r < roots.size(); ++r) {
    roots[r] = count.trees_per_weight * problem.weight[r];
  }
  for (const Transfer& transfer : transfers->transfers) roots[transfer.entry] += transfer.count;

  BoxForests forests(problem, boxes, height_steps, control);
  std::vector<BoxForests::Solved> solved;
  for (std::size_t b = 0; b < boxes.ranks.size(); ++b) {
    if (control.IsCancelled()) return Fail(ErrorCode::kUnavailable, "cancelled");
    auto box = forests.Solve(static_cast<std::int32_t>(b), roots, transfers->left);
    if (!box) return Propagate(box);
    if (!box->has_value()) return std::nullopt;
    solved.push_back(std::move(**box));
  }
  return Composer(problem, count, boxes, *transfers, solved, control.threads).Compose();
}

}  // namespace

Result<std::optional<Forest>> BuildHierarchical(const Problem& problem, const TreeCount& count,
                                                std::int64_t height_steps, const Control& control) {
  for (const Boxes& boxes : FindBoxes(problem)) {
    for (const TransferOrder order :
         {TransferOrder::kByRoot, TransferOrder::kTightestFirst, TransferOrder::kSpread}) {
      control.Report("packing", 0);
      auto forest = TryBoxes(problem, count, boxes, order, height_steps, control);
      if (!forest || forest->has_value()) return forest;
    }
  }
  return std::nullopt;
}

}  // namespace espalier::forest
