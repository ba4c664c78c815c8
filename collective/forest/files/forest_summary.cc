#include "collective/forest/files/forest_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "collective/forest/model/routed_trees.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;

constexpr std::size_t kShownIds = 8;

std::string Decimal(const Rational& value) { return fmt::format("{:.6g}", value.ToDouble()); }

// "leaf", "spine", "switch in a box", ...
std::string ClassOf(const fabric::Node& node) {
  if (node.kind == fabric::NodeKind::kSwitch) {
    if (node.role != fabric::SwitchRole::kNone) return std::string(SwitchRoleName(node.role));
    return node.host.empty() ? "SWITCH" : "inner SWITCH";
  }
  return std::string(NodeKindName(node.kind));
}

struct Use {
  std::size_t channels = 0;
  std::size_t unused = 0;
  double sum = 0;
  double most = 0;
};

// By the classes of both ends and the rate in bit/s.
using Uses = std::map<std::tuple<std::string, std::string, std::int64_t>, Use>;

Uses MeasureUse(const fabric::Topology& topology, const TreeSchedule& schedule,
                const Findings& findings) {
  Uses uses;
  const double tree_bps = schedule.tree_gbps.ToDouble() * 1e9;
  for (std::size_t p = 0; p < schedule.phases.size(); ++p) {
    const Phase& phase = schedule.phases[p];
    for (std::size_t c = 0; c < phase.channels.size(); ++c) {
      const Findings::Load& load = findings.loads[p][c];
      const Channel& channel = phase.channels[c];
      Use& use = uses[{ClassOf(topology.node(channel.from)), ClassOf(topology.node(channel.to)),
                       load.capacity_bps}];
      const double busy =
          static_cast<double>(load.trees) * tree_bps / static_cast<double>(load.capacity_bps);
      ++use.channels;
      use.unused += load.trees == 0 ? 1 : 0;
      use.sum += busy;
      use.most = std::max(use.most, busy);
    }
  }
  return uses;
}

// The smaller side gives the shorter text.
std::string NameCut(const fabric::Topology& topology, const TreeSchedule& schedule) {
  std::vector<bool> inside(topology.nodes().size(), false);
  for (const NodeId node : schedule.cut) inside[node.Index()] = true;
  std::vector<std::string> sides[2];
  for (const NodeId rank : schedule.ranks) {
    sides[inside[rank.Index()] ? 1 : 0].push_back(topology.node(rank).id);
  }
  const bool into = sides[0].size() <= sides[1].size();
  const std::vector<std::string>& side = sides[into ? 0 : 1];
  std::string names;
  for (std::size_t i = 0; i < std::min(kShownIds, side.size()); ++i) {
    names += (i == 0 ? "" : ", ") + side[i];
  }
  if (side.size() > kShownIds) names += fmt::format(" and {} more", side.size() - kShownIds);
  return fmt::format("{} {} rank{}: {}", into ? "into" : "out of", side.size(),
                     side.size() == 1 ? "" : "s", names);
}

}  // namespace

std::string SummariseForest(const fabric::Topology& topology, const TreeSchedule& schedule,
                            const Findings& findings) {
  std::string text;
  const auto line = [&](std::string_view title, const std::string& value) {
    text += fmt::format("{:<20} {}\n", title, value);
  };
  const auto rates = [&](const Rational& inverse_rate) {
    return fmt::format("{} Gbit/s (inverse rate {})", Decimal(schedule.AlgorithmGbps(inverse_rate)),
                       inverse_rate.ToString());
  };
  std::size_t classes = 0;
  std::int64_t unroutable = 0;
  for (const Forest& forest : schedule.forests) {
    classes += forest.classes.size();
    unroutable += forest.unroutable_edges;
  }
  line("collective",
       fmt::format("{} over {} ranks{}", CollectiveName(schedule.collective), schedule.ranks.size(),
                   schedule.on_share ? ", on a share of the links" : ""));
  line("method", std::string(MethodName(schedule.forests.front().method)));
  line("bound", rates(schedule.bound_inverse_rate));
  line("bottleneck cut", NameCut(topology, schedule));
  line("attained", fmt::format("{}, {:.4g} % of the bound", rates(schedule.inverse_rate),
                               100 * schedule.FractionOfBound().ToDouble()));
  line("trees", fmt::format("{} per root and unit of weight, {} Gbit/s each, in {} classes",
                            schedule.trees_per_weight, Decimal(schedule.tree_gbps), classes));
  line("height",
       fmt::format("{} at most, {:.2f} on average", findings.heights.max, findings.heights.mean));
  line("edges", fmt::format("{} between ranks, {} of them on paths that ECMP cannot take",
                            findings.edges, unroutable));
  text +=
      "\nlinks (each direction)                  Gbit/s   count   unused  mean use  most used\n";
  for (const auto& [key, use] : MeasureUse(topology, schedule, findings)) {
    const auto& [from, to, bps] = key;
    text +=
        fmt::format("{:<32} {:>13} {:>7} {:>8} {:>7.1f} % {:>8.1f} %\n",
                    fmt::format("{} to {}", from, to), FormatGbps(BitsPerSecond{bps}), use.channels,
                    use.unused, 100 * use.sum / static_cast<double>(use.channels), 100 * use.most);
  }
  return text;
}

std::vector<ClassSaving> SavingsByClass(const fabric::Topology& topology,
                                        const TreeSchedule& schedule, const Findings& findings,
                                        const std::vector<std::vector<std::int64_t>>& pruned) {
  std::map<std::tuple<std::string, std::string, std::int64_t>, ClassSaving> savings;
  for (std::size_t p = 0; p < schedule.phases.size(); ++p) {
    const std::vector<Channel>& channels = schedule.phases[p].channels;
    for (std::size_t c = 0; c < channels.size(); ++c) {
      const Findings::Load& load = findings.loads[p][c];
      const std::string from = ClassOf(topology.node(channels[c].from));
      const std::string to = ClassOf(topology.node(channels[c].to));
      ClassSaving& saving = savings[{from, to, load.capacity_bps}];
      saving.from = from;
      saving.to = to;
      saving.rate = BitsPerSecond{load.capacity_bps};
      saving.before += load.trees;
      saving.after += pruned[p][c];
    }
  }
  std::vector<ClassSaving> list;
  for (auto& [key, saving] : savings) list.push_back(std::move(saving));
  return list;
}

std::string SummariseSavings(const std::vector<ClassSaving>& savings) {
  std::string text =
      "\ntraffic with copies in switches          Gbit/s   before    after     saved\n";
  for (const ClassSaving& saving : savings) {
    const double saved = saving.before == 0
                             ? 0
                             : 100 * static_cast<double>(saving.before - saving.after) /
                                   static_cast<double>(saving.before);
    text += fmt::format("{:<32} {:>14} {:>8} {:>8} {:>7.1f} %\n", saving.from + " to " + saving.to,
                        FormatGbps(saving.rate), saving.before, saving.after, saved);
  }
  return text;
}

Result<std::string> FormatTreeAsDot(const fabric::Topology& topology, const TreeSchedule& schedule,
                                    std::size_t tree_class) {
  const Phase& phase = schedule.phases.front();
  const Forest& forest = schedule.forests[phase.forest];
  if (tree_class >= forest.classes.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("there is no tree {}: the classes of trees are 0 to {}", tree_class,
                            forest.classes.size() - 1));
  }
  const auto quoted = [&](NodeId node) {
    std::string text;
    for (const char c : topology.node(node).id) {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    return "\"" + text + "\"";
  };
  std::string text =
      fmt::format("digraph tree{} {{\n  // {} of {} trees of this root\n", tree_class,
                  forest.classes[tree_class].count, schedule.trees_per_weight);
  VisitRoutedTrees(forest, [&](const RoutedTree& tree) {
    if (tree.tree_class != tree_class) return tree.tree_class < tree_class;
    text += fmt::format("  {} [shape=box]\n", quoted(schedule.ranks[tree.root]));
    for (const TreeEdge& edge : tree.edges) {
      std::string via;
      const auto hops = forest.routes.Hops(*edge.route);
      for (std::size_t h = 0; h + 1 < hops.size(); ++h) {
        const Channel& channel = phase.channels[static_cast<std::size_t>(hops[h])];
        const std::string name = quoted(phase.reversed ? channel.from : channel.to);
        via += (via.empty() ? "" : "\\n") + name.substr(1, name.size() - 2);
      }
      const NodeId parent = schedule.ranks[edge.parent];
      const NodeId child = schedule.ranks[edge.child];
      text += fmt::format("  {} -> {} [label=\"{}\"]\n", quoted(phase.reversed ? child : parent),
                          quoted(phase.reversed ? parent : child), via);
    }
    return false;  // the other trees of the class differ only in their routes
  });
  return text + "}\n";
}

}  // namespace espalier::forest
