#include "collective/forest/edge_splitting/elimination.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "collective/forest/bound/feasibility.h"
#include "collective/forest/edge_splitting/elimination_order.h"
#include "collective/forest/edge_splitting/exact_removal.h"
#include "collective/forest/edge_splitting/pairing.h"
#include "collective/forest/edge_splitting/verification.h"

namespace espalier::forest {

namespace {

// A node to remove, and the group whose components its guess is based on.
struct Step {
  std::int32_t node = 0;
  std::size_t group = 0;
};

// The idea is in the header.
//
// Invariant at the start of each batch: graph_ is balanced with s, K units flow from s to every
// remaining rank, and undoing ranks_ and then switches_, last first, restores the graph of the
// problem.
//
// Cost: a batch that holds costs one flow per neighbour of its nodes (one per rank while neighbours
// include switches). A batch that fails is halved. A single node whose guess fails costs a flow for
// each combination of neighbour and pair.
// Source: ForestColl, Algorithm 3, which splits pair by pair without guesses.
class Eliminator {
 public:
  Eliminator(const Problem& problem, const TreeCount& count, const EliminationOptions& options,
             const Control& control)
      : problem_(problem),
        options_(options),
        control_(control),
        graph_(problem, count),
        verification_(problem, graph_, problem.TotalWeight() * count.trees_per_weight, control),
        box_(static_cast<std::size_t>(problem.rank_count), 0) {}

  Result<Elimination> Run() {
    Result<void> done = RemoveSwitches();
    if (!done) return Propagate(done);
    done = RemoveRanks();
    if (!done) return Propagate(done);
    return Elimination{std::move(switches_), std::move(ranks_), std::move(graph_), last_,
                       fallbacks_};
  }

 private:
  Result<void> RemoveSwitches() {
    const std::vector<std::vector<std::int32_t>> groups = GroupSwitches(problem_);
    std::vector<Step> steps;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const std::int32_t node : groups[g]) steps.push_back({node, g});
    }
    components_.resize(groups.size());
    const auto guess = [this, &steps](std::size_t i) {
      std::vector<std::int32_t>& component = components_[steps[i].group];
      if (i == 0 || steps[i - 1].group != steps[i].group) {
        component = ComputeComponents(graph_.flows(), problem_.rank_count);
        RememberBoxes(component);
      }
      return GuessSwitchPairing(problem_, graph_, steps[i].node, component);
    };
    return RemoveAll("switch removal", steps, steps.size(), guess, switches_);
  }

  Result<void> RemoveRanks() {
    std::vector<std::int32_t> order = OrderByBox(box_);
    std::rotate(order.begin(), order.begin() + options_.first_rank, order.end());
    std::vector<Step> steps;
    for (const std::int32_t rank : order) steps.push_back({rank, 0});
    last_ = order.back();
    steps.pop_back();
    const auto guess = [this, &steps](std::size_t i) {
      return GuessRankPairing(graph_, steps[i].node, box_);
    };
    return RemoveAll("packing", steps, 16, guess, ranks_);
  }

  // Boxes are the last components that are not yet joined into one.
  void RememberBoxes(std::span<const std::int32_t> component) {
    const bool apart = std::any_of(component.begin(), component.end(),
                                   [&](std::int32_t c) { return c != component.front(); });
    if (apart) box_.assign(component.begin(), component.end());
  }

  // Removes the nodes in order, in batches that grow while the guesses hold.
  template <typename Guess>
  Result<void> RemoveAll(std::string_view stage, std::span<const Step> steps, std::size_t batch,
                         const Guess& guess, std::vector<Removal>& removals) {
    removals.reserve(steps.size());
    for (std::size_t done = 0; done < steps.size();) {
      if (control_.IsCancelled()) return Fail(ErrorCode::kUnavailable, "cancelled");
      if (verification_.Steps() > options_.step_budget) {
        return Fail(
            ErrorCode::kResourceExhausted,
            fmt::format("the step budget is used up after {} steps", verification_.Steps()));
      }
      control_.Report(stage, static_cast<double>(done) / static_cast<double>(steps.size()));
      batch = RemoveGuessed(steps, done, batch, guess, removals);
      if (verification_.Holds(std::span(removals).last(batch))) {
        done += batch;
        batch *= 2;
        continue;
      }
      ++fallbacks_.guesses_refused;
      for (std::size_t i = batch; i-- > 0; removals.pop_back()) {
        verification_.MarkRemoved(removals.back().node, false);
        graph_.Undo(removals.back());
      }
      if (batch > 1) {
        ++fallbacks_.batches_halved;
        batch /= 2;
        continue;
      }
      Result<Removal> removal =
          RemoveExactly(problem_, graph_, verification_, steps[done].node, guess(done), fallbacks_);
      if (!removal) return Propagate(removal);
      removals.push_back(std::move(*removal));
      verification_.MarkRemoved(steps[done].node, true);
      ++done;
    }
    return {};
  }

  // Removes up to `batch` nodes as guessed, without verification, and returns how many. It stops
  // before a rank that K units can no longer enter, as putting such a rank back would fail.
  template <typename Guess>
  std::size_t RemoveGuessed(std::span<const Step> steps, std::size_t done, std::size_t batch,
                            const Guess& guess, std::vector<Removal>& removals) {
    const std::size_t end = std::min(steps.size(), done + std::max<std::size_t>(batch, 1));
    for (std::size_t i = done; i < end; ++i) {
      if (i > done && !verification_.CanBeEntered(steps[i].node)) return i - done;
      removals.push_back({steps[i].node, guess(i)});
      graph_.Apply(removals.back());
      verification_.MarkRemoved(steps[i].node, true);
    }
    return end - done;
  }

  const Problem& problem_;
  const EliminationOptions& options_;
  const Control& control_;
  SplitGraph graph_;
  Verification verification_;
  std::vector<std::vector<std::int32_t>> components_;  // by group of switches
  std::vector<std::int32_t> box_;                      // by rank
  std::vector<Removal> switches_;
  std::vector<Removal> ranks_;
  std::int32_t last_ = 0;
  FallbackCounters fallbacks_;
};

}  // namespace

Result<Elimination> EliminateNodes(const Problem& problem, const TreeCount& count,
                                   const EliminationOptions& options, const Control& control) {
  return Eliminator(problem, count, options, control).Run();
}

}  // namespace espalier::forest
