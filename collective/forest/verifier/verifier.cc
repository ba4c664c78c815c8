#include "collective/forest/verifier/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "collective/forest/verifier/channel_rates.h"
#include "collective/forest/verifier/tree_checker.h"
#include "common/base/parallel.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;
using fabric::NodeKind;
using fabric::Topology;
using Load = Findings::Load;

tl::unexpected<Error> Violation(std::string message) {
  return Fail(ErrorCode::kFailedPrecondition, std::move(message));
}

class Verifier {
 public:
  Verifier(const Topology& topology, const TreeSchedule& schedule,
           std::span<const BitsPerSecond> available, int threads)
      : topology_(topology), schedule_(schedule), available_(available), threads_(threads) {}

  Result<Findings> Run() {
    if (auto ok = CheckRanks(); !ok) return Propagate(ok);
    if (auto ok = CheckShapes(); !ok) return Propagate(ok);
    if (auto ok = CheckCollective(); !ok) return Propagate(ok);
    std::vector<std::vector<std::int64_t>> uses_of_forest;
    for (const Forest& forest : schedule_.forests) {
      if (auto ok = CheckRoots(forest); !ok) return Propagate(ok);
      auto uses = CheckTrees(forest);
      if (!uses) return Propagate(uses);
      uses_of_forest.push_back(std::move(*uses));
    }
    for (const Phase& phase : schedule_.phases) {
      if (auto ok = CheckPhase(phase, uses_of_forest[phase.forest]); !ok) return Propagate(ok);
    }
    if (auto ok = CheckTime(); !ok) return Propagate(ok);
    if (auto ok = CheckBound(); !ok) return Propagate(ok);
    return std::move(findings_);
  }

 private:
  const std::string& NameOf(NodeId node) const { return topology_.node(node).id; }
  const std::string& NameOf(Rank rank) const { return NameOf(schedule_.ranks[rank]); }

  Result<void> CheckRanks() {
    if (schedule_.ranks.size() < 2 || schedule_.ranks.size() > kMaxRanks) {
      return Violation(fmt::format("the schedule has {} ranks", schedule_.ranks.size()));
    }
    rank_of_node_.assign(topology_.nodes().size(), kNoRank);
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
      const NodeId node = schedule_.ranks[r];
      if (node.Index() >= topology_.nodes().size()) {
        return Violation(fmt::format("rank {} is a node that the topology does not have", r));
      }
      if (topology_.node(node).kind != NodeKind::kCompute) {
        return Violation(
            fmt::format("rank {} is {}, which is not a COMPUTE node", r, NameOf(node)));
      }
      if (rank_of_node_[node.Index()] != kNoRank) {
        return Violation(fmt::format("{} is listed as a rank twice", NameOf(node)));
      }
      rank_of_node_[node.Index()] = static_cast<Rank>(r);
    }
    return {};
  }

  // Checks that all arrays have the sizes on which the rest relies.
  Result<void> CheckShapes() const {
    if (schedule_.weights.size() != schedule_.ranks.size()) {
      return Violation(
          fmt::format("{} weights for {} ranks", schedule_.weights.size(), schedule_.ranks.size()));
    }
    if (schedule_.trees_per_weight < 1) return Violation("k is below 1");
    if (schedule_.inverse_rate.IsZero() || schedule_.tree_gbps.IsZero() ||
        schedule_.bound_inverse_rate.IsZero()) {
      return Violation("a rate is zero");
    }
    if (schedule_.phases.empty()) return Violation("the schedule has no phase");
    for (const Phase& phase : schedule_.phases) {
      if (phase.forest >= schedule_.forests.size()) return Violation("a phase has no forest");
    }
    for (const Forest& forest : schedule_.forests) {
      const std::size_t ranks = schedule_.ranks.size();
      if (static_cast<std::size_t>(forest.rank_count) != ranks ||
          forest.parents.size() != forest.classes.size() * ranks) {
        return Violation(fmt::format("{} parents in {} classes of trees over {} ranks",
                                     forest.parents.size(), forest.classes.size(), ranks));
      }
    }
    return {};
  }

  Result<void> CheckCollective() const {
    std::vector<bool> up;
    if (GoesUp(schedule_.collective)) up.push_back(true);
    if (GoesDown(schedule_.collective)) up.push_back(false);
    const std::string_view name = CollectiveName(schedule_.collective);
    if (!std::ranges::equal(schedule_.phases, up, {}, &Phase::reversed)) {
      return Violation(fmt::format("the phases are not those of {}", name));
    }
    std::size_t roots = 0;
    for (const std::int64_t weight : schedule_.weights) {
      if (weight < 0) return Violation(fmt::format("a weight is {}", weight));
      if (weight > 0) ++roots;
    }
    if (roots == 0) return Violation("no rank has a weight");
    if (!HasRoot(schedule_.collective) || (roots == 1 && std::ranges::max(schedule_.weights) == 1))
      return {};
    return Violation(fmt::format("{} takes one rank with a weight of 1 and others without", name));
  }

  Result<void> CheckRoots(const Forest& forest) const {
    std::vector<Int128> trees(schedule_.ranks.size(), 0);
    for (const TreeClass& tree : forest.classes) {
      if (tree.root >= trees.size()) return Violation("a tree's root is not a rank");
      if (tree.count < 1) {
        return Violation(
            fmt::format("a class has {} trees of root {}", tree.count, NameOf(tree.root)));
      }
      trees[tree.root] += tree.count;
    }
    for (std::size_t r = 0; r < trees.size(); ++r) {
      const Int128 due = Int128{schedule_.trees_per_weight} * schedule_.weights[r];
      if (trees[r] == due) continue;
      return Violation(fmt::format("{} is the root of {} trees, not of {}",
                                   NameOf(static_cast<Rank>(r)), ToString(trees[r]),
                                   ToString(due)));
    }
    return {};
  }

  // Checks the trees; returns how many use each arc of the routing table.
  Result<std::vector<std::int64_t>> CheckTrees(const Forest& forest) {
    const TreeChecker checker(forest, threads_);
    if (const auto bad = checker.FindBadTree(findings_.heights)) {
      return Violation(fmt::format("tree class {} of root {}: {} {}", bad->tree_class,
                                   NameOf(forest.classes[bad->tree_class].root), NameOf(bad->rank),
                                   bad->what));
    }
    auto usage = checker.CountUses();
    if (usage.missing) {
      return Violation(fmt::format("a tree uses the edge {} to {}, which has no route",
                                   NameOf(usage.missing->first), NameOf(usage.missing->second)));
    }
    if (usage.overflow) {
      return Fail(ErrorCode::kResourceExhausted, "the number of trees on an edge exceeds 63 bits");
    }
    for (const std::int64_t uses : usage.uses) findings_.edges += uses > 0 ? 1 : 0;
    return std::move(usage.uses);
  }

  Result<void> CheckPhase(const Phase& phase, std::span<const std::int64_t> uses) {
    const auto rates = ComputeChannelRates(topology_, rank_of_node_, phase.channels, available_);
    if (!rates) return tl::unexpected<Error>(rates.error());
    std::vector<Load> loads(phase.channels.size());
    for (std::size_t c = 0; c < loads.size(); ++c) loads[c].capacity_bps = (*rates)[c];
    const RoutingTable& routes = schedule_.forests[phase.forest].routes;

    struct Part {
      Result<void> sound;
      std::vector<std::int64_t> trees;  // by channel
    };
    std::vector<Part> parts(static_cast<std::size_t>(threads_));
    ForRanges(threads_, routes.ArcCount(),
              [&](std::size_t part, std::size_t begin, std::size_t end) {
                std::vector<std::int64_t> trees(loads.size(), 0);
                for (std::size_t arc = begin; arc < end && parts[part].sound; ++arc) {
                  parts[part].sound = AddLoads(phase, routes, arc, uses[arc], trees);
                }
                parts[part].trees = std::move(trees);
              });
    for (const Part& part : parts) {
      if (!part.sound) return part.sound;
      for (std::size_t c = 0; c < loads.size(); ++c) {
        if (__builtin_add_overflow(loads[c].trees, part.trees[c], &loads[c].trees)) {
          return TooManyTrees();
        }
      }
    }
    if (auto ok = CheckLoads(phase, loads); !ok) return ok;
    findings_.loads.push_back(std::move(loads));
    return {};
  }

  // Adds the trees that use a logical arc to all channels of its routes.
  Result<void> AddLoads(const Phase& phase, const RoutingTable& routes, std::size_t arc,
                        std::int64_t uses, std::span<std::int64_t> trees_of_channel) const {
    std::int64_t left = uses;
    for (const Route& route : routes.Routes(arc)) {
      const std::span<const std::int32_t> hops = routes.Hops(route);
      if (auto ok = CheckPath(phase, hops, routes.From(arc), routes.To(arc)); !ok) return ok;
      if (route.count < 1) {
        return Violation(fmt::format("a route from {} to {} carries {} trees",
                                     NameOf(routes.From(arc)), NameOf(routes.To(arc)),
                                     route.count));
      }
      const std::int64_t taken = std::min(left, route.count);
      left -= taken;
      for (const std::int32_t hop : hops) {
        std::int64_t& trees = trees_of_channel[static_cast<std::size_t>(hop)];
        if (__builtin_add_overflow(trees, taken, &trees)) return TooManyTrees();
      }
    }
    if (left == 0) return {};
    return Violation(fmt::format("{} trees use the edge {} to {}, which has routes for {}", uses,
                                 NameOf(routes.From(arc)), NameOf(routes.To(arc)), uses - left));
  }

  static tl::unexpected<Error> TooManyTrees() {
    return Fail(ErrorCode::kResourceExhausted, "the number of trees on a link exceeds 63 bits");
  }

  Result<void> CheckPath(const Phase& phase, std::span<const std::int32_t> hops, Rank from,
                         Rank to) const {
    NodeId at = schedule_.ranks[from];
    const auto broken = [&](std::string_view why) {
      return Violation(fmt::format("the route from {} to {} {} at {}", NameOf(from), NameOf(to),
                                   why, NameOf(at)));
    };
    for (std::size_t h = 0; h < hops.size(); ++h) {
      if (hops[h] < 0 || static_cast<std::size_t>(hops[h]) >= phase.channels.size()) {
        return broken("has a hop that does not exist");
      }
      const Channel& channel = phase.channels[static_cast<std::size_t>(hops[h])];
      if ((phase.reversed ? channel.to : channel.from) != at) return broken("is broken");
      if (h > 0 && rank_of_node_[at.Index()] != kNoRank) return broken("passes a compute node");
      at = phase.reversed ? channel.from : channel.to;
    }
    if (at != schedule_.ranks[to] || hops.empty()) return broken("ends");
    return {};
  }

  // Checks that each channel is within its capacity; keeps the largest trees / capacity of all
  // phases.
  Result<void> CheckLoads(const Phase& phase, std::span<const Load> loads) {
    const Int128 numerator = schedule_.tree_gbps.numerator();
    const Int128 denominator = schedule_.tree_gbps.denominator();
    Load busiest{0, 1};
    for (std::size_t c = 0; c < loads.size(); ++c) {
      const Load& load = loads[c];
      Int128 needed = 0;
      Int128 given = 0;
      if (__builtin_mul_overflow(load.trees * Int128{1'000'000'000}, numerator, &needed) ||
          __builtin_mul_overflow(Int128{load.capacity_bps}, denominator, &given)) {
        return Fail(ErrorCode::kResourceExhausted, "the product of load and rate exceeds 127 bits");
      }
      if (needed > given) {
        return Violation(fmt::format(
            "{} to {} carries {} trees of {} Gbit/s each, more than its {} Gbit/s",
            NameOf(phase.channels[c].from), NameOf(phase.channels[c].to), load.trees,
            schedule_.tree_gbps.ToString(), FormatGbps(BitsPerSecond{load.capacity_bps})));
      }
      if (Int128{load.trees} * busiest.capacity_bps > Int128{busiest.trees} * load.capacity_bps) {
        busiest = load;
      }
    }
    busiest_.push_back(busiest);
    return {};
  }

  Result<void> CheckTime() const {
    // U = 1 / (rate of a tree) and inverse rate = U / k.
    const auto product = Rational::Product(schedule_.inverse_rate, schedule_.tree_gbps);
    if (!product || *product != Rational(1, schedule_.trees_per_weight)) {
      return Violation(fmt::format("an inverse rate of {} does not match {} trees of {} Gbit/s",
                                   schedule_.inverse_rate.ToString(), schedule_.trees_per_weight,
                                   schedule_.tree_gbps.ToString()));
    }
    std::optional<Rational> slowest;
    for (const Load& load : busiest_) {
      const Rational busy(load.trees * Int128{1'000'000'000}, load.capacity_bps);
      const auto time = Rational::Quotient(busy, Rational(schedule_.trees_per_weight, 1));
      if (!time) return Fail(ErrorCode::kResourceExhausted, "the exact time exceeds 127 bits");
      slowest = slowest ? std::max(*slowest, *time) : *time;
    }
    // On a share, capacity may stay unused on one side of an unbalanced node.
    if (*slowest == schedule_.inverse_rate) return {};
    if (schedule_.on_share && *slowest < schedule_.inverse_rate) return {};
    return Violation(fmt::format("the claimed inverse rate is {}, but the loads give {}",
                                 schedule_.inverse_rate.ToString(), slowest->ToString()));
  }

  Result<void> CheckBound() const {
    if (schedule_.on_share && available_.empty()) return {};
    if (schedule_.inverse_rate < schedule_.bound_inverse_rate) {
      return Violation(fmt::format("an inverse rate of {} is below the bound {}",
                                   schedule_.inverse_rate.ToString(),
                                   schedule_.bound_inverse_rate.ToString()));
    }
    std::vector<bool> in_cut(topology_.nodes().size(), false);
    for (const NodeId node : schedule_.cut) {
      if (node.Index() >= in_cut.size()) return Violation("the cut names an unknown node");
      in_cut[node.Index()] = true;
    }
    Int128 weight = 0;
    bool splits = false;
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
      const bool inside = in_cut[schedule_.ranks[r].Index()];
      if (inside) weight += schedule_.weights[r];
      splits = splits || !inside;
    }
    const Int128 bps = CapacityAcross(in_cut);
    if (!splits || bps == 0) return Violation("the cut separates no rank from the others");
    const Rational bound(weight * 1'000'000'000, bps);
    if (bound == schedule_.bound_inverse_rate) return {};
    return Violation(fmt::format("the named cut gives a bound of {}, not {}", bound.ToString(),
                                 schedule_.bound_inverse_rate.ToString()));
  }

  // The capacity that data can use across the cut: outwards, inwards (reversed phases), or both, in
  // which case the narrower side counts.
  Int128 CapacityAcross(const std::vector<bool>& in_cut) const {
    const auto takes_part = [&](NodeId node) {
      return topology_.node(node).kind != NodeKind::kCompute ||
             rank_of_node_[node.Index()] != kNoRank;
    };
    Int128 outwards = 0;
    Int128 inwards = 0;
    for (std::size_t i = 0; i < topology_.links().size(); ++i) {
      const fabric::Link& link = topology_.links()[i];
      if (link.state != fabric::LinkState::kUp || !takes_part(link.a) || !takes_part(link.b)) {
        continue;
      }
      const bool a = in_cut[link.a.Index()];
      if (a == in_cut[link.b.Index()]) continue;
      for (const bool forward : {true, false}) {
        if (!forward && link.directed) continue;
        const fabric::DirectedLink direction{fabric::LinkId(static_cast<std::int32_t>(i)), forward};
        (a == forward ? outwards : inwards) +=
            available_.empty() ? link.rate.value : available_[direction.Index()].value;
      }
    }
    const bool up = std::ranges::any_of(schedule_.phases, &Phase::reversed);
    const bool down = !std::ranges::all_of(schedule_.phases, &Phase::reversed);
    if (up && down) return std::min(outwards, inwards);
    return up ? inwards : outwards;
  }

  const Topology& topology_;
  const TreeSchedule& schedule_;
  std::span<const BitsPerSecond> available_;
  int threads_;
  std::vector<Rank> rank_of_node_;
  std::vector<Load> busiest_;  // by phase
  Findings findings_;
};

}  // namespace

Result<Findings> VerifySchedule(const Topology& topology, const TreeSchedule& schedule,
                                std::span<const BitsPerSecond> available, int threads) {
  return Verifier(topology, schedule, available, threads).Run();
}

}  // namespace espalier::forest
