#include "controller/link_tests/verdicts/link_verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "controller/link_tests/verdicts/loss_likelihood.h"
#include "controller/link_tests/verdicts/loss_trial.h"
#include "proto/messages.h"

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::NodeId;

namespace {

constexpr std::array<Duration, 4> kWindows = {std::chrono::seconds(4), std::chrono::seconds(12),
                                              std::chrono::seconds(40), std::chrono::seconds(120)};
constexpr std::array<std::uint8_t, 3> kKinds = {0, wire::kProtocolUdp, wire::kProtocolTcp};
// ln(10^4): so much rarer are two faults at a time than one.
constexpr double kSecondFault = 9.2;
constexpr double kClearly = 2;     // a difference of logarithms that draws attention to a protocol
constexpr double kFloor = 2.5e-4;  // of packets that every path may lose
constexpr std::size_t kMostSecond = 3;  // links that are tried as the first of two without the link
constexpr std::size_t kMostRemoved = 4;  // hosts that are removed one at a time

// Every path loses kFloor.
const LossLikelihood& Floor() {
  static const LossLikelihood floor(kFloor);
  return floor;
}

// The trains over a link that known faults do not explain, by kWindows and kKinds.
using WindowCounts = std::array<std::array<TrainCounts, kKinds.size()>, kWindows.size()>;

WindowCounts CountWindows(const LossEvidence& evidence, DirectedLink link, const KnownFaults& known,
                          TimePoint now, TimePoint since) {
  WindowCounts counts;
  const LossTrial::Window all{.since = since, .known = &known};
  evidence.ForEach(link, since, [&](const TrainOutcome& outcome) {
    if (!all.Accepts(outcome)) return;
    for (std::size_t window = 0; window < kWindows.size(); ++window) {
      if (outcome.at < now - kWindows[window]) continue;
      for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
        if (kKinds[kind] != 0 && kKinds[kind] != outcome.protocol) continue;
        counts[window][kind].Add(outcome.counted, outcome.IsBad());
      }
    }
  });
  return counts;
}

// The bad trains over a link.
struct BadTrains {
  std::size_t count = 0;
  std::map<AgentId, std::size_t> senders;
  std::map<AgentId, std::size_t> receivers;
  TimePoint first = TimePoint::max();
  TimePoint last = TimePoint::min();
  std::set<std::size_t> links;  // that they crossed, with those of NICs
  std::set<std::pair<std::uint32_t, std::uint16_t>> ports;

  void Add(const TrainOutcome& outcome) {
    ++count;
    ++senders[outcome.sender];
    ++receivers[outcome.receiver];
    first = std::min(first, outcome.at);
    last = std::max(last, outcome.at);
    outcome.ForEachLink([&](DirectedLink link) { links.insert(link.Index()); });
    ports.emplace(outcome.route, outcome.port);
  }
  bool AreEnough() const {
    return count >= LinkVerdict::kLeastBadTrains && last - first >= LinkVerdict::kLeastSpan;
  }
  bool AreOfSeveralHosts() const {
    return senders.size() >= LinkVerdict::kLeastHosts &&
           receivers.size() >= LinkVerdict::kLeastHosts;
  }
  // The hosts with most bad trains, the worst first.
  std::vector<AgentId> Worst() const {
    std::map<AgentId, std::size_t> all = senders;
    for (const auto& [host, trains] : receivers) all[host] += trains;
    std::vector<std::pair<std::size_t, AgentId>> order;
    for (const auto& [host, trains] : all) order.emplace_back(trains, host);
    std::ranges::sort(order, std::greater<>(), [](const auto& of) { return of.first; });
    std::vector<AgentId> hosts;
    for (const auto& [trains, host] : order) hosts.push_back(host);
    return hosts;
  }
};

// The competing explanations of the bad trains over one link.
class Contest {
 public:
  Contest(const fabric::Topology& topology, LossTrial& trial, const BadTrains& bad)
      : topology_(topology), trial_(trial) {
    for (const std::size_t index : bad.links) links_.push_back(DirectedLink::FromIndex(index));
  }

  // The links that no train tells apart from this one take no part in the contest. Returns those
  // between switches.
  std::vector<DirectedLink> RemoveTwins(DirectedLink link) {
    std::vector<DirectedLink> twins;
    std::erase_if(links_, [&](DirectedLink other) {
      if (other == link || !trial_.AreTwins(link, other)) return false;
      if (topology_.IsSwitchToSwitch(other.link)) twins.push_back(other);
      return true;
    });
    return twins;
  }

  struct Best {
    double score = 0;  // that nothing is wrong
    std::vector<DirectedLink> links;
  };
  // The best explanation without this link.
  Best Without(DirectedLink link) const {
    Best best;
    std::vector<DirectedLink> others;
    for (const DirectedLink other : links_) {
      if (other != link) others.push_back(other);
    }
    Improve(best, std::move(others));
    return best;
  }
  double With(DirectedLink link) const {
    double best = trial_.OfOne(link);
    for (const DirectedLink other : links_) {
      if (other != link && trial_.OfOne(other) > 0) {
        best = std::max(best, trial_.OfTwo(link, other) - kSecondFault);
      }
    }
    return best;
  }
  double Difference(DirectedLink link) const { return With(link) - Without(link).score; }
  // The switch at an end of the link that explains the trains better than the link does, as its
  // other links lose packets, too.
  std::optional<NodeId> BetterSwitch(DirectedLink link) const {
    std::optional<NodeId> better;
    double best = With(link);
    for (const NodeId end : {topology_.From(link), topology_.To(link)}) {
      if (topology_.IsFlowEndpoint(end)) continue;
      const double score = trial_.OfAll(LinksTo(end));
      if (score <= best) continue;
      best = score;
      better = end;
    }
    return better;
  }
  // That a switch loses packets, against one or two of its links and of those of the bad trains.
  double DifferenceOf(NodeId node) const {
    std::vector<DirectedLink> others = links_;
    for (const DirectedLink in : LinksTo(node)) {
      for (const DirectedLink link : {in, DirectedLink{in.link, !in.forward}}) {
        if (std::ranges::find(links_, link) == links_.end()) others.push_back(link);
      }
    }
    std::erase_if(others, [&](DirectedLink other) { return trial_.OfOne(other) <= 0; });
    Best best;
    Improve(best, std::move(others));
    return trial_.OfAll(LinksTo(node)) - best.score;
  }

 private:
  // Replaces the explanation by one or two of these links, if that is better.
  void Improve(Best& best, std::vector<DirectedLink> links) const {
    if (links.empty()) return;
    std::ranges::sort(links, std::greater<>(),
                      [&](DirectedLink link) { return trial_.OfOne(link); });
    if (trial_.OfOne(links.front()) > best.score) {
      best = {trial_.OfOne(links.front()), {links.front()}};
    }
    for (std::size_t i = 0; i < std::min(kMostSecond, links.size()); ++i) {
      for (std::size_t j = i + 1; j < links.size(); ++j) {
        const double score = trial_.OfTwo(links[i], links[j]) - kSecondFault;
        if (score > best.score) best = {score, {links[i], links[j]}};
      }
    }
  }
  std::vector<DirectedLink> LinksTo(NodeId node) const {
    std::vector<DirectedLink> links;
    for (const DirectedLink out : topology_.Outgoing(node))
      links.push_back({out.link, !out.forward});
    return links;
  }

  const fabric::Topology& topology_;
  LossTrial& trial_;
  std::vector<DirectedLink> links_;
};

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Whether `difference` stays above kCertain without any one host and without the `liars` worst.
template <typename Difference>
bool HoldsWithout(LossTrial& trial, const BadTrains& bad, std::size_t liars,
                  const std::set<AgentId>& accused, const Difference& difference) {
  std::vector<AgentId> worst = bad.Worst();
  std::erase_if(worst, [&](AgentId host) { return accused.contains(host); });
  std::vector<std::set<AgentId>> removals;
  for (std::size_t i = 0; i < std::min(kMostRemoved, worst.size()); ++i) {
    removals.push_back({worst[i]});
  }
  if (liars > 1) {
    removals.emplace_back(
        worst.begin(), worst.begin() + static_cast<std::ptrdiff_t>(std::min(liars, worst.size())));
  }
  bool holds = true;
  for (std::set<AgentId>& hosts : removals) {
    trial.Remove(std::move(hosts));
    holds = holds && difference() > LinkVerdict::kCertain;
  }
  trial.Remove({});
  return holds;
}

std::vector<DirectedLink> LinksBetweenSwitches(const fabric::Topology& topology, NodeId node) {
  std::vector<DirectedLink> links;
  for (const DirectedLink out : topology.Outgoing(node)) {
    if (topology.IsSwitchToSwitch(out.link)) links.push_back(out);
  }
  return links;
}

// Whether the siblings were tested enough: half as much, or so much that they would have lost some
// packets if they lost as large a part.
bool CanCompare(const LinkFault& fault) {
  constexpr std::int64_t kExpected = 4;
  return fault.siblings.sent >= fault.test.sent / 2 ||
         fault.siblings.sent * fault.test.lost >= kExpected * fault.test.sent;
}

std::string TrafficOf(std::uint8_t protocol) {
  if (protocol == 0) return "";
  return protocol == wire::kProtocolTcp ? "TCP" : "UDP";
}

}  // namespace

LinkVerdict::LinkVerdict(const fabric::Topology& topology, const fabric::PathTable& paths,
                         const LossEvidence& evidence, Liars liars)
    : topology_(topology), paths_(paths), evidence_(evidence), liars_(std::move(liars)) {}

std::vector<DirectedLink> LinkVerdict::SiblingsOf(DirectedLink link) const {
  const NodeId from = topology_.From(link);
  const NodeId to = topology_.To(link);
  const bool is_up = paths_.Tier(from) < paths_.Tier(to);
  std::vector<DirectedLink> siblings;
  for (const DirectedLink out : topology_.Outgoing(is_up ? from : to)) {
    if (out.link == link.link || !topology_.IsSwitchToSwitch(out.link)) continue;
    if (paths_.Tier(topology_.To(out)) != paths_.Tier(is_up ? to : from)) continue;
    siblings.push_back(is_up ? out : DirectedLink{out.link, !out.forward});
  }
  return siblings;
}

double LinkVerdict::BaselineOf(DirectedLink link, TimePoint since, std::uint8_t protocol,
                               const KnownFaults& known, LossCount& siblings) const {
  LossTrial trial(evidence_, {.since = since, .protocol = protocol, .known = &known}, Floor());
  std::vector<double> losses;
  for (const DirectedLink sibling : SiblingsOf(link)) {
    const LossCount count = trial.Count(sibling);
    siblings.lost += count.lost;
    siblings.sent += count.sent;
    if (count.sent == 0) continue;
    losses.push_back(static_cast<double>(count.lost) / static_cast<double>(count.sent));
  }
  return std::clamp(2 * MedianOf(losses), kFloor, 0.9 * LossLikelihood::kParts[0]);
}

std::optional<LossFinding> LinkVerdict::JudgeStep(DirectedLink link, std::size_t step,
                                                  const KnownFaults& known, TimePoint now) const {
  const TimePoint since = now - kWindows[step / kKinds.size()];
  const std::uint8_t protocol = kKinds[step % kKinds.size()];
  LossFinding finding{.links = {link}};
  LinkFault& fault = finding.fault;
  const LossLikelihood likelihood(BaselineOf(link, since, protocol, known, fault.siblings));
  LossTrial trial(evidence_, {.since = since, .protocol = protocol, .known = &known}, likelihood);
  BadTrains bad;
  trial.ForEach(link, [&](const TrainOutcome& outcome) {
    if (outcome.IsBad()) bad.Add(outcome);
  });
  fault.direction = link;
  fault.test = trial.Count(link);
  fault.traffic = TrafficOf(protocol);
  fault.senders = bad.senders.size();
  fault.receivers = bad.receivers.size();
  finding.bad_ports = bad.ports;
  const double certain = std::log(1e6 * 2 * static_cast<double>(topology_.links().size()));
  const bool is_enough =
      bad.AreEnough() && CanCompare(fault) &&
      static_cast<double>(fault.test.lost) >= kLeastLoss * static_cast<double>(fault.test.sent);
  if (!is_enough || trial.OfOne(link) <= certain) return std::nullopt;

  Contest contest(topology_, trial, bad);
  const std::vector<DirectedLink> twins = contest.RemoveTwins(link);
  const auto holds = [&](const std::set<AgentId>& accused, const auto& difference) {
    finding.difference = difference();
    return finding.difference > certain &&
           HoldsWithout(trial, bad, liars_(link), accused, difference);
  };
  const bool is_of_several = bad.AreOfSeveralHosts();
  const auto node = is_of_several ? contest.BetterSwitch(link) : std::nullopt;
  if (node && holds({}, [&] { return contest.DifferenceOf(*node); })) {
    finding.kind = LossFinding::Kind::kSwitch;
    finding.node = *node;
    finding.links = LinksBetweenSwitches(topology_, *node);
    return finding;
  }
  if (is_of_several && holds({}, [&] { return contest.Difference(link); })) {
    if (!twins.empty()) {
      finding.kind = LossFinding::Kind::kUndecided;
      finding.links.insert(finding.links.end(), twins.begin(), twins.end());
    }
    return finding;
  }
  const Contest::Best other = contest.Without(link);
  if (other.links.size() != 1 || topology_.IsSwitchToSwitch(other.links[0].link))
    return std::nullopt;
  // A NIC, whose host all bad trains have in common: without it nothing would be left.
  const DirectedLink access = other.links[0];
  if (!holds({bad.Worst().front()}, [&] { return contest.Difference(access); }))
    return std::nullopt;
  finding.kind = LossFinding::Kind::kNic;
  finding.links = {access};
  const NodeId from = topology_.From(access);
  finding.node = topology_.IsFlowEndpoint(from) ? from : topology_.To(access);
  return finding;
}

std::vector<std::size_t> LinkVerdict::StepsFor(DirectedLink link, const KnownFaults& known,
                                               TimePoint now) const {
  const WindowCounts counts = CountWindows(evidence_, link, known, now, now - kWindows.back());
  std::vector<std::size_t> steps;
  for (std::size_t step = 0; step < kWindows.size() * kKinds.size(); ++step) {
    const TrainCounts& trains = counts[step / kKinds.size()][step % kKinds.size()];
    if (trains.bad() >= kLeastBadTrains) steps.push_back(step);
  }
  return steps;
}

double LinkVerdict::Suspicion(DirectedLink link, const KnownFaults& known, TimePoint now,
                              TimePoint since) const {
  double most = 0;
  for (const auto& window : CountWindows(evidence_, link, known, now, since)) {
    for (const TrainCounts& counts : window) most = std::max(most, Floor().OfOne(counts));
  }
  return most;
}

std::uint8_t LinkVerdict::SuspectProtocol(DirectedLink link, const KnownFaults& known,
                                          TimePoint now, TimePoint since) const {
  double udp = 0;
  double tcp = 0;
  for (const auto& window : CountWindows(evidence_, link, known, now, since)) {
    for (std::size_t kind = 0; kind < kKinds.size(); ++kind) {
      const double score = Floor().OfOne(window[kind]);
      if (kKinds[kind] == wire::kProtocolUdp) udp = std::max(udp, score);
      if (kKinds[kind] == wire::kProtocolTcp) tcp = std::max(tcp, score);
    }
  }
  if (std::abs(udp - tcp) < kClearly) return 0;
  return tcp > udp ? wire::kProtocolTcp : wire::kProtocolUdp;
}

LinkVerdict::Acquittal LinkVerdict::AcquittalOf(DirectedLink link, TimePoint since) const {
  TimePoint last_bad = since;
  evidence_.ForEach(link, since, [&](const TrainOutcome& outcome) {
    if (outcome.IsBad() || outcome.IsSilent()) last_bad = std::max(last_bad, outcome.at);
  });
  TrainCounts counts;
  std::set<AgentId> senders;
  std::set<AgentId> receivers;
  Acquittal acquittal;
  evidence_.ForEach(link, last_bad, [&](const TrainOutcome& outcome) {
    if (outcome.IsBad() || outcome.IsSilent()) return;
    ++acquittal.trains;
    senders.insert(outcome.sender);
    receivers.insert(outcome.receiver);
    counts.Add(outcome.counted, false);
  });
  acquittal.one_percent = Floor().OfOne(counts, 0);
  acquittal.senders = senders.size();
  acquittal.receivers = receivers.size();
  return acquittal;
}

}  // namespace espalier::controller
