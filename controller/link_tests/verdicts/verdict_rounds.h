#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/link_tests/verdicts/link_verdict.h"
#include "controller/link_tests/verdicts/loss_evidence.h"

namespace espalier::controller {

// Examines all doubtful links in rounds, each turn as much as it allows, so that hosts with many
// bad trains cannot keep the controller's loop. A round begins once the one before has ended, and
// not earlier than half a second after its beginning.
// Deterministic: work is measured in trains that are inspected. Thread safety: none.
class VerdictRounds {
 public:
  static constexpr Duration kPeriod = std::chrono::milliseconds(500);
  // Trains that the verdicts of a turn inspect, at about 20 ns each; the last step may exceed it.
  static constexpr std::uint64_t kVisitsOfTurn = 50'000;

  struct Callbacks {
    std::function<bool(fabric::DirectedLink)> is_due;  // false: the link need not be judged
    std::function<KnownFaults()> known;
    std::function<void(fabric::DirectedLink, const KnownFaults&)> on_begin;
    std::function<void(const LossFinding&)> on_finding;
  };
  VerdictRounds(const LossEvidence& evidence, const LinkVerdict& verdict, Callbacks callbacks)
      : evidence_(evidence), verdict_(verdict), callbacks_(std::move(callbacks)) {}

  // To be called in each turn.
  void Judge(TimePoint now);

 private:
  struct Doubt {
    fabric::DirectedLink link;
    bool has_begun = false;
    std::deque<std::size_t> steps;  // that are left
  };
  // Does one step of the first link, which may end it.
  void JudgeStep(TimePoint now);

  const LossEvidence& evidence_;
  const LinkVerdict& verdict_;
  const Callbacks callbacks_;
  std::deque<Doubt> doubts_;
  TimePoint next_round_{};
};

}  // namespace espalier::controller
