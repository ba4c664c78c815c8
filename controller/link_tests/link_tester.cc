#include "controller/link_tests/link_tester.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::LinkId;
using fabric::NodeId;

namespace {

constexpr Duration kUrgentPause = std::chrono::milliseconds(150);  // between tests of a link
constexpr std::size_t kMostTestedNow = 64;                         // links
constexpr double kTestsOfHost = 64;  // urgent ones that a host may cause at once
constexpr double kTestsOfHostPerSecond = 4;
// For so long what passed an access link shows that its host is not cut off.
constexpr Duration kLatelyPassed = std::chrono::milliseconds(1'500);
constexpr Duration kConfirmation = std::chrono::milliseconds(600);
constexpr std::size_t kMostConfirmed = 16;  // ports
constexpr Duration kQueueMemory = std::chrono::seconds(5);
constexpr Duration kNicMemory = std::chrono::minutes(1);
constexpr Duration kDoubtAfter = std::chrono::seconds(10);
constexpr double kAcquittedOfOnePercent = 6.9;  // ln(1000): of a link in focus
// Trains without a loss by which a link that was dead returns; one that loses 5 % passes that with
// a probability of 10^-4.
constexpr std::size_t kTrainsOfAlive = 24;
constexpr std::size_t kLiarsPerHosts = 8;

}  // namespace

LinkTester::Counters::Counters(Metrics& metrics)
    : trains(metrics.MakeCounter("espalier_controller_test_trains_total",
                                 "Probe trains that hosts were ordered to send")),
      outcomes(metrics.MakeCounter("espalier_controller_test_outcomes_total",
                                   "Probe trains that both ends have reported")),
      bad(metrics.MakeCounter("espalier_controller_test_trains_bad_total",
                              "Probe trains that lost a packet while no queue was long")),
      forged(metrics.MakeCounter(
          "espalier_controller_test_trains_forged_total",
          "Probe trains whose receiver claimed packets that it cannot have received")),
      lost_reports(metrics.MakeCounter("espalier_controller_test_trains_unreported_total",
                                       "Probe trains that at most one end has reported")),
      inspected(metrics.MakeCounter("espalier_controller_test_trains_inspected_total",
                                    "Probe trains that verdicts inspected, each time")),
      in_focus(metrics.MakeGauge("espalier_controller_links_in_focus",
                                 "Directions of links that are tested with more probe trains, as "
                                 "they are in doubt")) {}

LinkTester::LinkTester(State& state, EventLoop& loop, PathLearner& learner,
                       const LinkTestOptions& options, bool hashes_protocol, Callbacks callbacks,
                       Metrics& metrics)
    : state_(state),
      loop_(loop),
      learner_(learner),
      options_(options),
      callbacks_(std::move(callbacks)),
      routes_(state, learner, hashes_protocol),
      book_(routes_, {.packets = TrainPlanner::kPackets, .short_queue = options.ShortQueue()}),
      planner_(state, loop, routes_, book_, options,
               {.find_prober = callbacks_.find_prober, .send = callbacks_.send}),
      evidence_(state.topology.links().size()),
      verdict_(state.topology, state.paths, evidence_,
               [this](DirectedLink link) { return LiarsAt(link); }),
      rounds_(evidence_, verdict_,
              {.is_due =
                   [this](DirectedLink link) {
                     return state_.topology.IsSwitchToSwitch(link.link) &&
                            !out_of_use_.contains(link.link);
                   },
               .known = [this] { return Known(); },
               .on_begin =
                   [this](DirectedLink link, const KnownFaults& known) {
                     const TimePoint since = doubts_.EvidenceSince(link);
                     doubts_.SetSuspicion(link, verdict_.Suspicion(link, known, loop_.Now(), since),
                                          loop_.Now());
                   },
               .on_finding = [this](const LossFinding& finding) { Conclude(finding); }}),
      dead_(
          evidence_, options.full_queue, [this](DirectedLink link) { return LiarsAt(link); },
          [this](DirectedLink a, DirectedLink b) {
            return routes_.AreSeries(a, b, [this](LinkId id) { return out_of_use_.contains(id); });
          }),
      hosts_(state.topology.nodes().size()),
      counters_(metrics) {
  for (std::size_t i = 0; i < state.topology.nodes().size(); ++i) {
    const auto attachment = state.paths.FindAttachment(NodeId(static_cast<std::int32_t>(i)));
    if (attachment) ++hosts_[attachment->leaf.Index()];
  }
}

// An eighth of the hosts at the leaf that the link joins, at least one; of links between other
// switches, of the smallest number that sends over it.
std::size_t LinkTester::LiarsAt(DirectedLink link) const {
  std::size_t hosts = 0;
  for (const NodeId end : {state_.topology.From(link), state_.topology.To(link)}) {
    hosts = std::max(hosts, hosts_[end.Index()]);
  }
  return std::max<std::size_t>(1, hosts / kLiarsPerHosts);
}

KnownFaults LinkTester::Known() const {
  KnownFaults known;
  for (const auto& [link, may_return] : out_of_use_) {
    for (const bool forward : {true, false})
      known.links.emplace(DirectedLink{link, forward}.Index(), TimePoint::max());
  }
  for (const auto& [link, until] : returned_) {
    for (const bool forward : {true, false})
      known.links.emplace(DirectedLink{link, forward}.Index(), until);
  }
  for (const auto& [node, found] : lossy_nodes_) {
    const bool is_nic = state_.topology.IsFlowEndpoint(node);
    if (const auto agent = is_nic ? callbacks_.find_prober(node) : std::nullopt)
      known.hosts.insert(*agent);
  }
  return known;
}

void LinkTester::SetOutOfUse(TrainPlanner::Links links) {
  for (const auto& [link, may_return] : links) {
    for (const bool forward : {true, false}) doubts_.Accuse({link, forward});
  }
  for (const auto& [link, may_return] : out_of_use_) {
    if (!links.contains(link)) returned_[link] = loop_.Now();
  }
  out_of_use_ = std::move(links);
}

bool LinkTester::IsHealthy(LinkId link, LinkFault::Kind kind, TimePoint since) const {
  return std::ranges::all_of(std::array{true, false}, [&](bool forward) {
    const DirectedLink direction{link, forward};
    const LinkVerdict::Acquittal found = verdict_.AcquittalOf(direction, since);
    const bool has_voices =
        found.senders >= LinkVerdict::kLeastHosts && found.receivers >= LinkVerdict::kLeastHosts;
    const bool is_acquitted = kind == LinkFault::Kind::kLossy
                                  ? found.one_percent < -LinkVerdict::kCertain
                                  : found.trains >= kTrainsOfAlive;
    return has_voices && is_acquitted;
  });
}

void LinkTester::TestNow(DirectedLink link) {
  const TimePoint now = loop_.Now();
  if (!state_.topology.IsSwitchToSwitch(link.link) || out_of_use_.contains(link.link)) return;
  const auto [last, is_new] = tested_now_.try_emplace(link.Index(), now);
  if (!is_new && now - last->second < kUrgentPause) return;
  if (is_new && tested_now_.size() > kMostTestedNow) {
    tested_now_.erase(last);
    return;
  }
  last->second = now;
  planner_.TestNow(link, dead_.Judge(link, Known(), now).rivals, out_of_use_);
}

void LinkTester::HandleDeadPath(AgentId id, std::span<const DirectedLink> links) {
  const TimePoint now = loop_.Now();
  TokenBucket& may_ask =
      may_ask_.try_emplace(id, kTestsOfHostPerSecond, kTestsOfHost, now).first->second;
  for (const DirectedLink link : links) {
    if (may_ask.Level(now) < 1) return;
    may_ask.Take(1, now);
    std::set<std::string>& by = accused_by_[link.Index()];
    if (by.size() < 16) by.insert(state_.agents.At(id).name);
    TestNow(link);
  }
}

void LinkTester::HandleRepeats(AgentId id, std::span<const DirectedLink> links) {
  const TimePoint now = loop_.Now();
  // A long queue on the path explains it.
  const auto is_congested = [&](DirectedLink link) {
    bool is_long = false;
    evidence_.ForEach(link, now - kQueueMemory, [&](const TrainOutcome& outcome) {
      is_long = is_long || outcome.queue_us > MicrosecondsOf(options_.ShortQueue());
    });
    return is_long;
  };
  if (std::ranges::any_of(links, is_congested)) return;
  doubts_.HandleRepeats(id, state_.agents.At(id).name, links, loop_.Now());
}

void LinkTester::HandleReport(AgentId id, const wire::TrainReport& report) {
  for (const wire::SentTrain& sent : report.sent) {
    if (const auto outcome = book_.HandleSent(id, sent)) Take(*outcome);
  }
  for (const wire::ReceivedTrain& received : report.received) {
    if (const auto outcome = book_.HandleReceived(id, received)) Take(*outcome);
  }
}

void LinkTester::Take(const TrainOutcome& outcome) {
  evidence_.Add(outcome);
  counters_.outcomes.Add();
  if (outcome.IsBad()) counters_.bad.Add();
  if (!outcome.IsSilent()) return;
  for (const DirectedLink hop : outcome.hops) {
    if (out_of_use_.contains(hop.link)) return;  // which explains it
  }
  // A host that is cut off says nothing about the links of the fabric.
  const auto passes = [&](DirectedLink access) {
    bool is_passed = false;
    evidence_.ForEach(access, outcome.at - kLatelyPassed, [&](const TrainOutcome& other) {
      is_passed = is_passed || !other.IsSilent();
    });
    return is_passed;
  };
  if (!passes(outcome.uplink) || !passes(outcome.downlink)) return;
  for (const DirectedLink hop : outcome.hops) JudgeDead(hop);
}

void LinkTester::JudgeDead(DirectedLink link) {
  const DeadVerdict::Answer answer = dead_.Judge(link, Known(), loop_.Now());
  if (!answer.fault) return TestNow(link);
  LinkFault fault = *answer.fault;
  fault.suspected_by = SuspectedBy(link);
  for (const DirectedLink sibling : verdict_.SiblingsOf(link)) {
    evidence_.ForEach(sibling, loop_.Now() - DeadVerdict::kMemory, [&](const TrainOutcome& of) {
      fault.siblings.sent += of.sent;
      fault.siblings.lost += of.sent - of.arrived;
    });
  }
  callbacks_.on_fault(fault);
  for (DirectedLink& other : fault.alternatives) {
    std::swap(fault.direction, other);
    callbacks_.on_fault(fault);
    std::swap(fault.direction, other);
  }
}

std::vector<std::string> LinkTester::SuspectedBy(DirectedLink link) const {
  std::set<std::string> by;
  for (const LinkDoubts::Focus& focus : doubts_.focus()) {
    if (focus.link == link) by.insert(focus.suspected_by.begin(), focus.suspected_by.end());
  }
  const auto hosts = accused_by_.find(link.Index());
  if (hosts != accused_by_.end()) by.insert(hosts->second.begin(), hosts->second.end());
  if (by.empty()) by.insert("sweep");
  return {by.begin(), by.end()};
}

void LinkTester::UpdateDoubts() {
  const TimePoint now = loop_.Now();
  EndFocus();
  doubts_.Update(now);
  counters_.in_focus.Set(static_cast<double>(doubts_.focus().size()));
  std::erase_if(returned_,
                [&](const auto& link) { return now - link.second >= LossEvidence::kMemory; });
  std::erase_if(lossy_nodes_, [&](const auto& nic) { return now - nic.second >= kNicMemory; });
  std::erase_if(undecided_, [&](const auto& links) { return now - links.second >= kDoubtAfter; });
  std::erase_if(confirming_, [&](const auto& of) { return now - of.second >= kNicMemory; });
  std::erase_if(tested_now_,
                [&](const auto& of) { return now - of.second >= TrainPlanner::kPeriod; });
  if (tested_now_.empty()) accused_by_.clear();
}

void LinkTester::EndFocus() {
  const TimePoint now = loop_.Now();
  std::vector<DirectedLink> acquitted;
  for (const LinkDoubts::Focus& focus : doubts_.focus()) {
    const LinkVerdict::Acquittal found = verdict_.AcquittalOf(focus.link, focus.since);
    if (found.one_percent < -kAcquittedOfOnePercent) acquitted.push_back(focus.link);
  }
  for (const DirectedLink link : acquitted) doubts_.Acquit(link, now);
}

bool LinkTester::IsConfirmed(const LossFinding& finding) {
  const TimePoint now = loop_.Now();
  const auto [since, is_new] = confirming_.try_emplace(finding.links.front().Index(), now);
  if (!is_new) return now - since->second >= kConfirmation;
  std::size_t asked = 0;
  for (const auto& [route, port] : finding.bad_ports) {
    if (++asked > kMostConfirmed) break;
    learner_.Verify(routes_.KeyOf(route, wire::kProtocolUdp), port);
  }
  callbacks_.request_turn();
  return false;
}

void LinkTester::NoteLossySwitch(NodeId node) {
  const auto [known, is_new] = lossy_nodes_.insert_or_assign(node, loop_.Now());
  if (!is_new) return;
  state_.history.RecordOf("detection", loop_.Now(), "switch_lossy",
                          fmt::format("switch={} remedy=\"this switch loses packets of its hosts, "
                                      "and no path avoids it: check it\"",
                                      state_.topology.node(node).id));
}

void LinkTester::Conclude(const LossFinding& finding) {
  if (!IsConfirmed(finding)) return;
  const TimePoint now = loop_.Now();
  switch (finding.kind) {
    case LossFinding::Kind::kSwitch:
      // Hosts have no way around the switch that they are linked to.
      if (hosts_[finding.node.Index()] > 0) return NoteLossySwitch(finding.node);
      [[fallthrough]];
    case LossFinding::Kind::kLink:
      for (const DirectedLink link : finding.links) {
        LinkFault fault = finding.fault;
        fault.direction = link;
        fault.suspected_by = SuspectedBy(link);
        callbacks_.on_fault(fault);
      }
      return;
    case LossFinding::Kind::kNic: {
      const auto [nic, is_new] = lossy_nodes_.insert_or_assign(finding.node, now);
      if (!is_new) return;
      state_.history.RecordOf(
          "detection", now, "nic_lossy",
          fmt::format("nic={} direction={} remedy=\"check this NIC, its cable and its host; its "
                      "tests no longer count\"",
                      state_.topology.node(finding.node).id,
                      ArrowOf(state_.topology, finding.links.front())));
      return;
    }
    case LossFinding::Kind::kUndecided: {
      std::vector<std::string> names;
      for (const DirectedLink link : finding.links) names.push_back(ArrowOf(state_.topology, link));
      std::ranges::sort(names);
      const auto [links, is_new] =
          undecided_.insert_or_assign(fmt::format("{}", fmt::join(names, ", ")), now);
      if (!is_new) return;
      state_.history.RecordOf(
          "detection", now, "links_undecided",
          fmt::format("links=\"{}\" lost={} sent={} remedy=\"one of these loses packets, and no "
                      "path tells them apart: look at the counters of their switches\"",
                      links->first, finding.fault.test.lost, finding.fault.test.sent));
      return;
    }
  }
}

void LinkTester::HandleFindings(const PathLearner::Findings& findings) {
  for (const PathLearner::Mismatch& mismatch : findings.mismatches) {
    if (mismatch.key.destination_port != TestRoutes::kDestinationPort) continue;
    const auto attachment = state_.paths.FindAttachment(mismatch.key.source);
    if (!attachment || !attachment->uplink) continue;
    evidence_.Forget(*attachment->uplink, routes_.RoutesOf(mismatch.key), mismatch.port);
  }
}

void LinkTester::Tick() {
  if (options_.probes_per_second == 0) return;
  const TimePoint now = loop_.Now();
  if (routes_.Refresh(now, [this](NodeId nic) { return planner_.IsReady(nic); }))
    callbacks_.request_turn();
  book_.Expire(now);
  evidence_.Expire(now);
  rounds_.Judge(now);
  if (now >= next_focus_) {
    next_focus_ = now + TrainPlanner::kFocusPeriod;
    UpdateDoubts();
    std::vector<TrainPlanner::Focus> focus;
    double most = 0;
    for (const LinkDoubts::Focus& of : doubts_.focus()) most = std::max(most, of.suspicion);
    for (const LinkDoubts::Focus& of : doubts_.focus()) {
      const TimePoint since = doubts_.EvidenceSince(of.link);
      // The likelier the link is the cause, the more trains it gets.
      constexpr double kLeastWeight = 0.1;
      focus.push_back({.link = of.link,
                       .protocol = verdict_.SuspectProtocol(of.link, Known(), now, since),
                       .weight = std::max(kLeastWeight, std::exp(of.suspicion - most))});
    }
    planner_.PlanFocus(focus, out_of_use_);
  }
  if (now >= next_period_) {
    next_period_ = now + TrainPlanner::kPeriod;
    planner_.PlanPeriod(out_of_use_, doubts_.focus().size());
  }
  const auto difference = [](std::uint64_t total, const Counter& counter) {
    return static_cast<std::int64_t>(total) - counter.Value();
  };
  counters_.trains.Add(difference(planner_.planned(), counters_.trains));
  counters_.forged.Add(difference(book_.forged(), counters_.forged));
  counters_.lost_reports.Add(difference(book_.lost_reports(), counters_.lost_reports));
  counters_.inspected.Add(difference(evidence_.visits(), counters_.inspected));
}

std::vector<std::string> LinkTester::Doubts() const {
  const TimePoint now = loop_.Now();
  std::vector<std::string> doubts;
  for (const LinkDoubts::Focus& focus : doubts_.focus()) {
    if (now - focus.since < kDoubtAfter) continue;
    doubts.push_back(fmt::format("link {} is being tested, as it may lose packets",
                                 ArrowOf(state_.topology, focus.link)));
  }
  const LinkDoubts::Unexplained& unexplained = doubts_.unexplained();
  if (!unexplained.hosts.empty() && now - unexplained.since >= kDoubtAfter) {
    doubts.push_back(
        fmt::format("flows of {} {} repeat packets, and no fault explains it yet (most on {})",
                    unexplained.hosts.size(), unexplained.hosts.size() == 1 ? "host" : "hosts",
                    ArrowOf(state_.topology, unexplained.worst)));
  }
  for (const auto& [links, found] : undecided_) {
    doubts.push_back(
        fmt::format("one of the links {} loses packets, and no path tells them apart", links));
  }
  for (const auto& [nic, found] : lossy_nodes_) {
    doubts.push_back(fmt::format("NIC {} or its host loses packets", state_.topology.node(nic).id));
  }
  return doubts;
}

}  // namespace espalier::controller
