#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "controller/routing/model/assignment.h"
#include "controller/routing/model/label_search.h"
#include "controller/routing/repair/limited_links.h"
#include "controller/routing/repair/stage_chains.h"

namespace espalier::controller {

// Repairs an assignment in a folded Clos that uses dead links, or loads links above a limit.
//
// Problem: where dead links differ between leaves, or flows of several heights are tight, no stage
// is exact, and the question is NP-complete (timetables: Even, Itai, Shamir 1976).
// Idea: keep what fits, and place only the displaced subflows again. Each takes the least loaded
// path within the limit, or one for which chains make room (StageChains). If there is none, it
// takes the path where the subflows in the way weigh least; those are displaced, weigh one more
// from now on, and the newcomer stays for a few steps (ejection search). Nothing is listed: paths
// are searched tier by tier.
// Cost: O(paths) at worst for each step, mostly a microsecond, and the chains. Deterministic. It
// met the lower bound in all cases that clos_bench measures; see docs/benchmarks.md. Thread safety:
// one thread per workspace.
class EjectionSearch {
 public:
  explicit EjectionSearch(const FabricView& view)
      : view_(view), labels_(view), links_(view), chains_(view, links_) {}

  // Repairs result.paths, in which all movable subflows have a path by any links, such that no link
  // carries more than `limit` (with the base loads, by directed link; empty: none), except where
  // base loads alone are more. All commodities must have equally many subflows. Unroutable ones
  // lose their paths. False, with the paths in any state, if it would take longer than `budget`
  // (steps of about 100 ns), of which it takes what it uses.
  bool Repair(std::span<const Commodity> commodities, const Load& limit,
              std::span<const std::int64_t> base_loads, std::int64_t& budget, Assignment& result);

 private:
  // How much a subflow that is in the way weighs, and how long it stays after it was placed.
  struct Standing {
    std::uint32_t weight = 1;
    std::int64_t stays_until = 0;  // step
  };

  // Places a subflow in spite of others, which are displaced; false if it has no path at all.
  bool PlaceByForce(std::uint32_t subflow);
  // Finds the path on which those in the way weigh least, by tiers as LabelSearch does.
  void Descend(std::uint32_t tier, std::uint32_t label, std::int32_t path, std::uint64_t cost);
  std::uint64_t CostOf(std::uint32_t link) const;
  std::uint32_t LightestOn(std::uint32_t link) const;
  std::uint64_t WeightOf(std::uint32_t subflow) const;

  const FabricView& view_;
  LabelSearch labels_;
  LimitedLinks links_;
  StageChains chains_;
  std::mt19937 random_;
  std::int64_t step_ = 0;
  std::vector<Standing> standings_;     // by subflow
  std::vector<std::uint32_t> waiting_;  // displaced, the last one first
  // The search for a path by force.
  std::uint32_t from_ = 0;
  std::uint32_t to_ = 0;
  std::uint32_t top_ = 0;
  std::uint64_t best_cost_ = 0;
  std::int32_t best_path_ = kNoPath;
  std::uint32_t ties_ = 0;
};

}  // namespace espalier::controller
