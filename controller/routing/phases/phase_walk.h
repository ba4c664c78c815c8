#pragma once

#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "controller/routing/phases/phase_loads.h"

namespace espalier::controller {

// Lowers what links and phases have above their goals, past local optima: a random walk over
// exchanges of flows between two spines, which mostly takes steps that do not make it worse (a tabu
// search, Glover 1989; for edge colourings the exchanges are Kempe chains). It returns to the best
// assignment that it met: the least excess of links, then the least excess of phases alone.
//
// Cost: what the budget says. Deterministic: the seed is fixed. The arguments must outlive it.
// Thread safety: one thread.
class PhaseWalk {
 public:
  // `step_budget`: looks at a route of about 100 ns each.
  PhaseWalk(const PhaseProblem& problem, PhaseLoads& loads, std::int64_t step_budget);

  // Until nothing is above its goal, the budget is used up, or half of it brought nothing.
  void Run();

 private:
  struct Move {
    std::uint32_t flow = 0;
    std::uint32_t from = PhaseProblem::kNoRoute;
  };

  void Step();
  // Takes one flow of each phase that reaches the job's peak off the link.
  bool LowerPeak(std::uint32_t job, std::uint32_t link);
  // Takes a flow of the phase off the link by the best exchange. An exchange with an excess that is
  // at most `good_enough` ends the search for better ones.
  bool Leave(PhaseLoads::Cell cell, std::int64_t good_enough);
  void ListMovable(PhaseLoads::Cell cell);
  bool MayHelp(std::uint32_t flow, std::uint32_t route, PhaseLoads::Cell cell) const;
  bool IsBelowCeiling();

  // Moves the flow to the route. Where a phase of a moved flow is then above its goal, another flow
  // of the phase moves to the other spine, if there is one. False: too many would have to. The
  // moves are appended to moves_ in any case.
  bool Exchange(std::uint32_t flow, std::uint32_t route);
  bool MakeRoom(std::uint32_t flow, std::uint32_t link, std::uint32_t color, std::uint32_t other);
  std::uint32_t OtherRoute(std::uint32_t flow, std::uint32_t color, std::uint32_t other);
  void MoveFlow(std::uint32_t flow, std::uint32_t route);
  void UndoTo(std::size_t count);
  std::int64_t Cost() const;

  const PhaseProblem& problem_;
  PhaseLoads& loads_;
  std::int64_t steps_;
  Random random_{1};
  std::vector<std::int64_t> ceiling_;  // by link: its share of the maximum load at the start
  std::uint64_t exchange_ = 0;
  std::vector<std::uint64_t> exchange_of_;  // by flow: the last exchange that moved it
  std::vector<Move> moves_;                 // since the best assignment, in order
  std::size_t begin_ = 0;                   // moves_ of the present exchange
  std::uint32_t now_ = 0;                   // steps of the walk
  std::vector<std::uint32_t> tabu_;  // by hash of phase and link: until when no flow may return
  std::vector<std::uint32_t> candidates_;
};

}  // namespace espalier::controller
