#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "controller/link_tests/verdicts/link_verdict.h"
#include "controller/link_tests/verdicts/loss_evidence.h"

namespace espalier::controller {

// Concludes from the outcomes of probe trains that nothing passes a directed link between switches.
//
// A congested link still delivers, a dead one delivers nothing. So a link is dead if the last
// trains over it were all silent: at least kLeastTrains in kLeastSpan or longer, from several hosts
// to several hosts, while other paths between the same hosts delivered. The silence must also have
// lasted longer than the last sign of it is old: on hosts that report late, a queue that was full
// for a moment, or a switch that was not scheduled, looks silent until the trains after it are
// known. kLeastLeft of these trains must be left without any one host, and without the f hosts with
// most of them, so that f hosts that hide what they send or receive take no link down. On busy
// hosts trains are silent for no fault of the fabric: if a part s of the trains of the same hosts
// over other links was silent at the same time, n silent trains count only if s^n is below 10^-6
// for all links together. Trains that were sent within the time for which a full queue drains count
// once, as they met the same queue. Another link that all these trains cross and that nothing
// passed either is another explanation. The link is dead only if trains have distinguished the two,
// or if none ever can, as all paths over this one cross the other one, too. If all paths over the
// other one also cross this one, either may be the dead one: the fault names the other one as an
// alternative, and nothing is lost by leaving both. What would prove it wrong: one train that
// passes.
//
// Deterministic. Complexity: O(trains of the link in kMemory x links). Thread safety: none.
class DeadVerdict {
 public:
  static constexpr std::size_t kLeastTrains = 5;
  static constexpr std::size_t kLeastLeft = 2;
  static constexpr Duration kLeastSpan = std::chrono::milliseconds(100);
  static constexpr Duration kMemory = std::chrono::seconds(5);

  // Whether all paths over the first link that could tell cross the second one, too.
  using AreSeries = std::function<bool(fabric::DirectedLink, fabric::DirectedLink)>;
  // `full_queue`: for how long a full queue of a switch drains.
  DeadVerdict(const LossEvidence& evidence, Duration full_queue, LinkVerdict::Liars liars,
              AreSeries are_series)
      : evidence_(evidence),
        full_queue_(full_queue),
        liars_(std::move(liars)),
        are_series_(std::move(are_series)) {}

  struct Answer {
    std::optional<LinkFault> fault;  // it is dead
    // Not dead yet, and these links explain the silence as well: trains over this link that avoid
    // them would tell.
    std::set<std::size_t> rivals;  // DirectedLink::Index
  };
  Answer Judge(fabric::DirectedLink link, const KnownFaults& known, TimePoint now) const;

 private:
  bool HasPassedElsewhere(const TrainOutcome& silent) const;
  // Whether hosts that are busy, or cut off for a moment, are too unlikely to explain this silence.
  bool IsBeyondChance(fabric::DirectedLink link, const std::vector<const TrainOutcome*>& silent,
                      const KnownFaults& known) const;
  bool HasPassed(fabric::DirectedLink link, TimePoint since) const;
  // How many of the trains met different queues.
  std::size_t CountMoments(const std::vector<const TrainOutcome*>& trains) const;

  const LossEvidence& evidence_;
  const Duration full_queue_;
  const LinkVerdict::Liars liars_;
  const AreSeries are_series_;
};

}  // namespace espalier::controller
