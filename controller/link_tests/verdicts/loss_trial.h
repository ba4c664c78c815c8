#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/link_tests/verdicts/known_faults.h"
#include "controller/link_tests/verdicts/loss_evidence.h"
#include "controller/link_tests/verdicts/loss_likelihood.h"
#include "controller/state/link_fault.h"

namespace espalier::controller {

// The trains that one verdict considers, and how well hypotheses explain them.
//
// The trains of a link are visited once, when it first takes part, and are counted by the other
// links that they crossed; each hypothesis is then a sum over these counts.
// Complexity: O(trains of the links that take part x links of a path), and O(1) for a hypothesis on
// two links. Thread safety: none. The references must outlive it.
class LossTrial {
 public:
  struct Window {
    TimePoint since;
    std::uint8_t protocol = 0;  // 0: all
    const KnownFaults* known = nullptr;
    std::set<AgentId> removed = {};  // hosts whose trains do not count

    bool Accepts(const TrainOutcome& outcome) const {
      if (outcome.counted == 0 || (protocol != 0 && outcome.protocol != protocol)) return false;
      if (removed.contains(outcome.sender) || removed.contains(outcome.receiver)) return false;
      return !known->Explains(outcome);
    }
  };
  LossTrial(const LossEvidence& evidence, Window window, const LossLikelihood& likelihood)
      : evidence_(evidence), window_(std::move(window)), likelihood_(likelihood) {}

  // From now on the trains of these hosts do not count, and those of all other hosts do.
  void Remove(std::set<AgentId> hosts);

  template <typename Visit>
  void ForEach(fabric::DirectedLink link, Visit visit) const {
    evidence_.ForEach(link, window_.since, [&](const TrainOutcome& outcome) {
      if (window_.Accepts(outcome)) visit(outcome);
    });
  }
  // Logarithms of likelihoods against "nothing is wrong": that this link loses packets; that a
  // switch loses packets of all trains over these links to it; that two links lose packets.
  double OfOne(fabric::DirectedLink link);
  double OfAll(std::span<const fabric::DirectedLink> links);
  double OfTwo(fabric::DirectedLink first, fabric::DirectedLink second);
  // Whether every train over one of the links crosses the other one, too.
  bool AreTwins(fabric::DirectedLink first, fabric::DirectedLink second);
  LossCount Count(fabric::DirectedLink link) { return Of(link).packets; }

 private:
  struct Trains {
    TrainCounts counts;
    LossCount packets;
    std::map<std::size_t, TrainCounts> shared;  // with other links, by DirectedLink::Index
    std::optional<double> of_one;
  };
  Trains& Of(fabric::DirectedLink link);

  const LossEvidence& evidence_;
  Window window_;
  const LossLikelihood& likelihood_;
  std::map<std::size_t, Trains> trains_;  // by DirectedLink::Index
};

}  // namespace espalier::controller
