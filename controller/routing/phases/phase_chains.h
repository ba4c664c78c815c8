#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "controller/routing/phases/phase_bounds.h"
#include "controller/routing/phases/phase_loads.h"

namespace espalier::controller {

// Moves flows so that links carry no more than their limits: alternating (Kempe) chains of edge
// colouring, for phases. Counts its work against a budget of steps, each of which is one look at a
// route. The arguments must outlive it. Deterministic. Thread safety: one thread.
class PhaseChains {
 public:
  PhaseChains(const PhaseProblem& problem, PhaseLoads& loads, std::int64_t step_budget)
      : problem_(problem), loads_(loads), steps_(step_budget) {}

  // In units by link. Chains put no link above its limit.
  void SetLimits(std::vector<std::int64_t> limits) { limits_ = std::move(limits); }
  void SetLimit(std::uint32_t link, std::int64_t units) { limits_[link] = units; }
  bool IsAboveLimit(std::uint32_t link) const { return loads_.WorstOf(link) > limits_[link]; }
  // Whether chains also put no phase above its goal on a link.
  void KeepPhaseGoals(bool keep) { keeps_phase_goals_ = keep; }
  bool Fits(std::uint32_t flow, std::uint32_t route) const;  // a flow without a route

  // Takes flows off a link until it is within its limit. Of the chains that it tries, the one that
  // moves the fewest flows from home wins. False, without any change, if none succeeds.
  bool Relieve(std::uint32_t link);
  // Moves a flow to this route, and others as needed, if fewer flows are away from home afterwards.
  bool MoveHome(std::uint32_t flow);
  // Moves a flow, and others as needed, to a route without another subflow of its group.
  bool Separate(std::uint32_t flow);

  bool HasSteps() const { return steps_ > 0; }
  std::int64_t steps() const { return steps_; }

 private:
  struct Move {
    std::uint32_t flow = 0;
    std::uint32_t from = PhaseProblem::kNoRoute;
    std::uint32_t to = PhaseProblem::kNoRoute;
  };
  // The two colours between which flows are exchanged.
  struct Colors {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
  };

  // Chooses flows of the job on this link whose removal lowers the job's peak there by `units`, or
  // by as much as is possible; appends them to set_. Returns by how much.
  std::int64_t ChooseEjected(std::uint32_t link, std::uint32_t job, std::int64_t units);
  // Fills set_ with flows whose removal brings the link within its limit, those of the job first.
  bool ChooseEjected(std::uint32_t link, std::uint32_t first_job);
  void ListJobsOn(std::uint32_t link);
  bool EjectUntilWithinLimit(std::uint32_t link);
  // Ejects other flows of the flow's phases from a link until these are within their goals there.
  bool EjectUntilWithinPhaseGoals(std::uint32_t flow, std::uint32_t link);

  void Eject(std::uint32_t flow);
  void Land(std::uint32_t flow, std::uint32_t route);
  // Finds routes for all ejected flows, and ejects others as needed. True if all links that it used
  // are within their limits. The caller undoes it otherwise.
  bool Settle(const Colors& colors);
  bool PushTo(Move move, std::uint32_t route);
  std::uint32_t ForcedRoute(const Move& move, const Colors& colors);
  std::uint32_t FreeRoute(std::uint32_t flow);
  // The sum of the excess over the limits if the flow, which has no route, took this one.
  std::int64_t ExcessWith(std::uint32_t flow, std::uint32_t route) const;
  void ListAlternatives(std::uint32_t flow, std::uint32_t color);
  // Tries to eject this set from a link, with several colours; keeps the best chain in best_.
  void TrySet(std::span<const std::uint32_t> set);
  void Begin();
  void Undo();
  void Apply(std::span<const Move> moves);
  int Cost() const;  // by how much the number of flows away from home grows
  int CostOf(std::uint32_t flow, std::uint32_t from, std::uint32_t to) const;

  const PhaseProblem& problem_;
  PhaseLoads& loads_;
  std::int64_t steps_;
  std::vector<std::int64_t> limits_;
  bool keeps_phase_goals_ = false;
  std::uint64_t chain_ = 0;
  std::vector<std::uint64_t> chain_of_;  // by flow: the last chain that moved it
  std::vector<Move> moves_;              // of the present chain, in order
  std::vector<Move> best_;
  int best_cost_ = 0;
  bool has_best_ = false;
  std::size_t landed_ = 0;  // moves_ before it have a route
  std::vector<std::uint32_t> set_;
  std::vector<std::uint32_t> jobs_;
  std::vector<std::int64_t> above_;  // by phase of a job: what is above the target
  std::vector<std::pair<std::int64_t, std::uint32_t>> alternatives_;  // (excess, colour)
};

}  // namespace espalier::controller
