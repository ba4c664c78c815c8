#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/paths.h"
#include "controller/link_tests/verdicts/known_faults.h"
#include "controller/link_tests/verdicts/loss_evidence.h"
#include "controller/state/link_fault.h"

namespace espalier::controller {

struct LossFinding {
  // kLink: links.front(). kSwitch: `node`, whose links between switches are `links`. kNic: `node`.
  // kUndecided: one of `links`, which no train can tell apart.
  enum class Kind : std::uint8_t { kLink, kSwitch, kNic, kUndecided };
  Kind kind = Kind::kLink;
  std::vector<fabric::DirectedLink> links;
  fabric::NodeId node;
  LinkFault fault;
  double difference = 0;
  // Routes and ports of the bad trains, whose paths should be verified before the finding counts.
  std::set<std::pair<std::uint32_t, std::uint16_t>> bad_ports;
};

// Concludes from the outcomes of probe trains which directed links between switches lose packets.
//
// Problem: each train crosses several links, and hosts may be lossy, late or hostile. A verdict
// takes a link out of use, so a wrong one must be all but impossible.
// Idea: hypotheses compete. The best explanation of the trains with a link l (l alone, or l and one
// more link) is compared with the best one in which the link is sound: nothing is wrong, or one or
// two other links are faulty, those of NICs included. Both are logarithms of likelihoods
// (LossLikelihood), less ln(10^4) for a second fault. Their difference must exceed ln(10^6 x
// directed links), and 13.8 (10^-6) without any one host and without the f hosts with most losses.
// So f liars alone accuse nobody, whatever they send, keep back or claim. Trains of UDP and of TCP
// are judged apart and together, over 4, 12, 40 and 120 s. Every path may lose a part q of its
// packets: 2.5 * 10^-4, or twice what the link's siblings lose, so that a slow receiver raises its
// own measure. If a switch all of whose links lose packets explains the trains even better, it is
// named instead. What would prove a verdict wrong: siblings that lose as much, or trains of other
// hosts that pass.
//
// Deterministic. Complexity: O(trains of the link), unless at least kLeastBadTrains of a window are
// bad; then O(trains of the links that the bad trains crossed) for each window and each removed
// set of hosts. Thread safety: none; reads `evidence`.
class LinkVerdict {
 public:
  static constexpr double kLeastLoss = 0.005;  // a link that loses less is not named
  static constexpr std::size_t kLeastBadTrains = 5;
  static constexpr std::size_t kLeastHosts = 2;  // that sent bad trains, and that received some
  static constexpr Duration kLeastSpan = std::chrono::seconds(1);  // between the bad trains
  static constexpr double kCertain = 13.8;                         // ln(10^6)

  // `liars` says of a directed link f, the number of hosts without which a verdict must hold.
  using Liars = std::function<std::size_t(fabric::DirectedLink)>;
  LinkVerdict(const fabric::Topology& topology, const fabric::PathTable& paths,
              const LossEvidence& evidence, Liars liars);

  // What follows for this link between switches, in steps, of which the first one with a finding
  // counts: each weighs the trains of one window and kind. The finding may be about a switch or a
  // NIC that explains the losses on the link. StepsFor returns the steps that have enough bad
  // trains, ascending.
  std::vector<std::size_t> StepsFor(fabric::DirectedLink link, const KnownFaults& known,
                                    TimePoint now) const;
  std::optional<LossFinding> JudgeStep(fabric::DirectedLink link, std::size_t step,
                                       const KnownFaults& known, TimePoint now) const;
  // How strongly the trains over this link since then alone speak for losses on it; the greatest
  // logarithm over windows and kinds. It draws attention to a link and proves nothing.
  double Suspicion(fabric::DirectedLink link, const KnownFaults& known, TimePoint now,
                   TimePoint since) const;
  // The protocol of whose trains that is most true; 0: of both alike.
  std::uint8_t SuspectProtocol(fabric::DirectedLink link, const KnownFaults& known, TimePoint now,
                               TimePoint since) const;
  // What the trains since the last bad or silent one say.
  struct Acquittal {
    double one_percent = 0;  // the logarithm for a loss of 1 %; below -kCertain, there is none
    std::size_t trains = 0;  // that arrived, at least in part
    std::size_t senders = 0;
    std::size_t receivers = 0;
  };
  Acquittal AcquittalOf(fabric::DirectedLink link, TimePoint since) const;
  // The links that compare with this one: from its upper or to its lower end, to switches of the
  // same tier.
  std::vector<fabric::DirectedLink> SiblingsOf(fabric::DirectedLink link) const;

 private:
  // The part of its packets that every path may lose. Adds up what the link's siblings have lost.
  double BaselineOf(fabric::DirectedLink link, TimePoint since, std::uint8_t protocol,
                    const KnownFaults& known, LossCount& siblings) const;

  const fabric::Topology& topology_;
  const fabric::PathTable& paths_;
  const LossEvidence& evidence_;
  const Liars liars_;
};

}  // namespace espalier::controller
