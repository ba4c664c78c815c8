#include "collective/forest/planner/planner.h"

#include <fmt/format.h>

#include <utility>

#include "collective/forest/bound/optimality.h"
#include "collective/forest/bound/tree_count.h"
#include "collective/forest/ecmp/ecmp_forest.h"
#include "collective/forest/general/shallow_forest.h"
#include "collective/forest/structures/hierarchical.h"
#include "collective/forest/structures/label_trees.h"
#include "collective/forest/structures/star_forest.h"
#include "common/base/check.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;
using fabric::Topology;

// The largest useful number of trees per unit of weight, by the total number of tree edges.
constexpr std::int64_t kMaxEcmpEdges = 16'384;
constexpr std::int64_t kMaxEcmpTrees = 8;

std::int64_t CountEcmpTrees(const Problem& problem, const ScheduleOptions& options) {
  if (options.trees_per_weight != 0) return options.trees_per_weight;
  const std::int64_t most =
      options.max_trees_per_weight != 0 ? options.max_trees_per_weight : kMaxEcmpTrees;
  const std::int64_t edges = problem.TotalWeight() * (problem.rank_count - 1);
  return std::clamp<std::int64_t>(kMaxEcmpEdges / edges, 1, most);
}

Result<ProblemOptions> MakeProblemOptions(const Topology& topology,
                                          const ScheduleOptions& options) {
  if (options.ecmp_only && options.previous) {
    return Fail(ErrorCode::kInvalidArgument,
                "an ECMP-only forest cannot keep trees of an earlier schedule");
  }
  if (options.trees_per_weight != 0 && options.max_trees_per_weight != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "the number of trees per root can be fixed or limited, not both");
  }
  ProblemOptions made = options.problem;
  if (!HasRoot(options.collective)) {
    if (!options.root) return made;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} takes no root", CollectiveName(options.collective)));
  }
  if (!options.root || !made.weights.empty()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} needs a root and takes no weights",
                                                         CollectiveName(options.collective)));
  }
  if (made.ranks.empty()) {
    for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
      if (topology.nodes()[i].kind != fabric::NodeKind::kCompute) continue;
      made.ranks.emplace_back(static_cast<std::int32_t>(i));
    }
  }
  bool found = false;
  for (const NodeId rank : made.ranks) {
    found = found || rank == *options.root;
    made.weights.push_back(rank == *options.root ? 1 : 0);
  }
  if (found) return made;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("the root {} is not a rank", topology.node(*options.root).id));
}

// Chooses the tree counts of problems that have the same optimality; all get the same k.
Result<std::vector<TreeCount>> ChooseTreeCounts(std::span<const Problem> problems,
                                                const Optimality& optimality,
                                                const ScheduleOptions& options,
                                                const Control& control) {
  if (options.max_trees_per_weight != 0) {
    return CountTreesAtMost(problems, optimality, options.max_trees_per_weight, control);
  }
  std::vector<TreeCount> counts;
  for (const Problem& problem : problems) {
    auto count = options.trees_per_weight == 0
                     ? CountTrees(problem, optimality)
                     : CountTreesFixed(problem, optimality, options.trees_per_weight, control);
    if (!count) return Propagate(count);
    counts.push_back(std::move(*count));
  }
  return counts;
}

Result<Forest> BuildForest(const Problem& problem, const TreeCount& count,
                           const ScheduleOptions& options, const Control& control) {
  if (options.use_structure) {
    auto labels = BuildLabelTrees(problem, count, control);
    if (!labels) return Propagate(labels);
    if (labels->has_value()) return std::move(**labels);
    if (auto star = BuildStar(problem, count)) return std::move(*star);
    auto boxes = BuildHierarchical(problem, count, options.height_steps, control);
    if (!boxes) return Propagate(boxes);
    if (boxes->has_value()) return std::move(**boxes);
  }
  return BuildShallowForest(problem, count, options.height_steps, control);
}

Phase MakePhase(const Problem& problem, std::size_t forest, bool reversed) {
  Phase phase;
  phase.forest = forest;
  phase.reversed = reversed;
  phase.channels.reserve(problem.arcs.size());
  for (const Arc& arc : problem.arcs) {
    const NodeId tail = problem.topology_node[static_cast<std::size_t>(arc.tail)];
    const NodeId head = problem.topology_node[static_cast<std::size_t>(arc.head)];
    phase.channels.push_back(reversed ? Channel{head, tail} : Channel{tail, head});
  }
  return phase;
}

class Planner {
 public:
  Planner(const Topology& topology, const ScheduleOptions& options, const Control& control)
      : topology_(topology), options_(options), control_(control) {}

  Result<VerifiedSchedule> Run() {
    auto problem_options = MakeProblemOptions(topology_, options_);
    if (!problem_options) return Propagate(problem_options);
    if (options_.ecmp_only) problem_options->balanced = false;  // the ECMP forest needs no balance
    auto problem = BuildProblem(topology_, *problem_options);
    if (!problem) return Propagate(problem);
    if (auto fits = CheckMemory(*problem); !fits) return Propagate(fits);

    VerifiedSchedule made;
    TreeSchedule& schedule = made.schedule;
    schedule.collective = options_.collective;
    schedule.on_share = !problem_options->available.empty();
    schedule.weights = problem->weight;
    schedule.ranks.assign(problem->topology_node.begin(),
                          problem->topology_node.begin() + problem->rank_count);
    if (auto done = AddBound(*problem, *problem_options, schedule); !done) return Propagate(done);
    if (auto done = AddForests(*problem, schedule); !done) return Propagate(done);

    control_.Report("verify", 0);
    auto findings =
        VerifySchedule(topology_, schedule, problem_options->available, control_.threads);
    if (!findings) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("the computed forest is not sound (please report this): {}",
                              findings.error().message));
    }
    made.findings = std::move(*findings);
    made.reuse = reuse_;
    for (const Forest& forest : schedule.forests) {
      for (const TreeClass& tree : forest.classes) made.reuse.all += tree.count;
    }
    return made;
  }

 private:
  Result<void> CheckMemory(const Problem& problem) const {
    const std::int64_t bytes = EstimateScheduleBytes(problem);
    if (bytes <= options_.memory_limit_bytes) return {};
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("a forest over {} ranks needs about {} MiB of memory, but {} MiB are "
                            "available (use fewer ranks or a larger machine)",
                            problem.rank_count, bytes >> 20, options_.memory_limit_bytes >> 20));
  }

  // Adds the bound of the links as they are. If all nodes are balanced, the problem's own bound
  // holds for both directions: as much capacity enters any set of nodes as leaves it.
  Result<void> AddBound(const Problem& problem, const ProblemOptions& made,
                        TreeSchedule& schedule) {
    control_.Report("bound", 0);
    auto optimality = ComputeOptimality(problem, control_);
    if (!optimality) return Propagate(optimality);
    optimality_ = std::move(*optimality);
    if (!schedule.on_share && !options_.ecmp_only)
      return RaiseBound(problem, optimality_, schedule);
    ProblemOptions as_they_are = made;
    as_they_are.balanced = false;
    const auto whole = BuildProblem(topology_, as_they_are);
    if (!whole) return tl::unexpected<Error>(whole.error());
    for (const bool up : {true, false}) {
      if (up ? !GoesUp(options_.collective) : !GoesDown(options_.collective)) continue;
      const Problem turned = up ? Transpose(*whole) : *whole;
      const auto bound = ComputeOptimality(turned, control_);
      if (!bound) return tl::unexpected<Error>(bound.error());
      if (auto done = RaiseBound(turned, *bound, schedule); !done) return done;
    }
    return {};
  }

  static Result<void> RaiseBound(const Problem& problem, const Optimality& optimality,
                                 TreeSchedule& schedule) {
    const auto bound = problem.PerGbps(optimality.inverse_rate);
    if (!bound) return Overflow();
    if (*bound <= schedule.bound_inverse_rate) return {};
    schedule.bound_inverse_rate = *bound;
    schedule.cut.clear();
    for (const std::int32_t node : optimality.cut) {
      schedule.cut.push_back(problem.topology_node[static_cast<std::size_t>(node)]);
    }
    return {};
  }

  // All forests of a schedule have the same number of trees, so either all keep earlier trees or
  // none does.
  Result<void> AddForests(const Problem& problem, TreeSchedule& schedule) {
    if (!options_.previous) return AddPhases(problem, schedule);
    keeps_trees_ = true;
    if (auto done = AddPhases(problem, schedule); !done) return done;
    if (keeps_trees_ || reuse_.kept == 0) return {};
    schedule.forests.clear();
    schedule.phases.clear();
    reuse_ = {};
    return AddPhases(problem, schedule);
  }

  Result<void> AddPhases(const Problem& problem, TreeSchedule& schedule) {
    // In-trees are out-trees on the reversed links.
    std::vector<Problem> problems;
    if (GoesUp(options_.collective)) problems.push_back(Transpose(problem));
    const bool is_same_twice =
        !problems.empty() && GoesDown(options_.collective) && problems.front().arcs == problem.arcs;
    if (GoesDown(options_.collective) && !is_same_twice) problems.push_back(problem);

    std::vector<TreeCount> counts(problems.size());  // unused for ECMP, which counts its own trees
    if (!options_.ecmp_only) {
      auto chosen = ChooseTreeCounts(problems, optimality_, options_, control_);
      if (!chosen) return Propagate(chosen);
      counts = std::move(*chosen);
    }
    bool reversed = GoesUp(options_.collective);
    for (std::size_t p = 0; p < problems.size(); ++p, reversed = false) {
      if (auto done = AddForest(problems[p], counts[p], reversed, schedule); !done) return done;
    }
    if (is_same_twice) schedule.phases.push_back(MakePhase(problem, 0, false));
    return {};
  }

  Result<Forest> BuildAny(const Problem& problem, const TreeCount& count, bool reversed) {
    if (!options_.ecmp_only) return KeepOrBuild(problem, count, reversed);
    const EcmpForestOptions options{.trees_per_weight = CountEcmpTrees(problem, options_),
                                    .reversed = reversed};
    return BuildEcmpForest(topology_, problem, options, control_);
  }

  Result<void> AddForest(const Problem& problem, const TreeCount& count, bool reversed,
                         TreeSchedule& schedule) {
    auto forest = BuildAny(problem, count, reversed);
    if (!forest) return Propagate(forest);
    // All trees of a schedule have one rate: that of its slowest forest.
    if (!schedule.forests.empty()) {
      Forest& before = schedule.forests.front();
      Forest& slower = forest->scale < before.scale ? before : *forest;
      before.scale = forest->scale = Rational(slower.scale);
      before.inverse_rate = forest->inverse_rate = Rational(slower.inverse_rate);
    }
    if (!options_.ecmp_only && forest->inverse_rate < optimality_.inverse_rate) {
      return Fail(ErrorCode::kInternal, "a forest is faster than the bound");
    }
    const auto inverse_rate = problem.PerGbps(forest->inverse_rate);
    const auto tree_rate = Rational::Quotient(Rational(1, 1), forest->scale);
    const auto tree_gbps = tree_rate ? problem.Gbps(*tree_rate) : std::nullopt;
    if (!inverse_rate || !tree_gbps) return Overflow();
    schedule.inverse_rate = *inverse_rate;
    schedule.tree_gbps = *tree_gbps;
    schedule.trees_per_weight = forest->trees_per_weight;
    schedule.phases.push_back(MakePhase(problem, schedule.forests.size(), reversed));
    schedule.forests.push_back(std::move(*forest));
    return {};
  }

  // Builds a forest of earlier trees as long as that works; keeps_trees_ says whether it did.
  Result<Forest> KeepOrBuild(const Problem& problem, const TreeCount& count, bool reversed) {
    if (keeps_trees_) {
      const bool two_forests =
          options_.collective == Collective::kAllreduce && Transpose(problem).arcs != problem.arcs;
      const ReuseOptions options{
          .reversed = reversed,
          .any_tree_count = options_.trees_per_weight == 0 && options_.max_trees_per_weight == 0,
          .previous_tree_count = !two_forests,
          .use_structure = options_.use_structure,
          .height_steps = options_.height_steps};
      auto reused =
          ReuseTrees(topology_, problem, count, *options_.previous, options, control_, reuse_);
      if (!reused) return Propagate(reused);
      if (reused->has_value()) return std::move(**reused);
      keeps_trees_ = false;
    }
    return BuildForest(problem, count, options_, control_);
  }

  static tl::unexpected<Error> Overflow() {
    return Fail(ErrorCode::kResourceExhausted,
                "the exact rates exceed 127 bits (give bandwidths with fewer digits)");
  }

  const Topology& topology_;
  const ScheduleOptions& options_;
  const Control& control_;
  Optimality optimality_;  // of the balanced problem
  bool keeps_trees_ = false;
  Reuse reuse_;
};

}  // namespace

Result<VerifiedSchedule> MakeTreeSchedule(const Topology& topology, const ScheduleOptions& options,
                                          const Control& control) {
  return Planner(topology, options, control).Run();
}

std::int64_t EstimateScheduleBytes(const Problem& problem) {
  // About 4 classes per root at 2 bytes per parent, held twice while heights are reduced; then the
  // routes.
  const std::int64_t ranks = problem.rank_count;
  return 16 * ranks * ranks + 512 * static_cast<std::int64_t>(problem.arcs.size());
}

}  // namespace espalier::forest
