#include "controller/placement/verify/port_verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "controller/paths/models/path_reach.h"

namespace espalier::controller {
namespace {

// After a change of links: flows or edges verified in one batch, and the time between batches.
constexpr std::size_t kFlowsAtOnce = 64;
constexpr Duration kPause = std::chrono::milliseconds(2);
// When the ports near changed links are learned again. BGP needs some tenths of a second for a link
// without carrier and up to four seconds for one that comes back; without BFD it takes a silent
// link for dead after its hold time, of usually nine seconds (RFC 4271).
constexpr std::array<Duration, 2> kRoutesSettle{std::chrono::seconds(2), std::chrono::seconds(12)};
// All ports in use are noted in so many calls of Tick, within ten seconds.
constexpr std::size_t kTicksOfRound = 100;
// Known ports of a pair of leaves that are verified at a time where some paths have no port: if a
// route has come back, at least every (paths)th of them has moved.
constexpr std::size_t kPortsRechecked = 8;
// Unreachable paths that an event names; it counts all.
constexpr std::size_t kPathsNamed = 4;

std::size_t CountLeaves(const fabric::Topology& topology) {
  return static_cast<std::size_t>(
      std::ranges::count(topology.nodes(), fabric::SwitchRole::kLeaf, &fabric::Node::role));
}

}  // namespace

PortVerifier::PortVerifier(State& state, PathLearner& learner, Placement& placement,
                           const ControllerOptions& options, EventLoop& loop, Callbacks callbacks,
                           Metrics& metrics)
    : state_(state),
      learner_(learner),
      placement_(placement),
      options_(options),
      loop_(loop),
      callbacks_(std::move(callbacks)),
      unverified_(state),
      in_use_(state),
      hosts_(state.topology, state.paths),
      detector_(CountLeaves(state.topology), {.window = options.verification.within}),
      verified_(metrics.MakeCounter("espalier_controller_ports_verified_total",
                                    "Probe answers that showed the path of a port")),
      pairs_learned_again_(metrics.MakeCounter(
          "espalier_controller_pairs_rehashed_total",
          "Pairs of leaves whose ports were learned again, because a verified port took another "
          "path")),
      switches_learned_again_(metrics.MakeCounter(
          "espalier_controller_switches_rehashed_total",
          "Switches whose ports were learned again, because their hash had changed")),
      fabrics_learned_again_(metrics.MakeCounter(
          "espalier_controller_fabric_rehashed_total",
          "Times that the ports of the whole fabric were learned again, because several switches "
          "had changed their hash")),
      ports_(metrics.MakeGauge("espalier_controller_ports_in_use",
                               "Source ports of flows and edges that probes verify in turn")),
      oldest_seconds_(metrics.MakeGauge(
          "espalier_controller_oldest_verification_seconds",
          "The longest time since a source port in use was verified or first used")) {}

void PortVerifier::HandleLinkChange(std::span<const fabric::LinkId> links) {
  links_changed_ = loop_.Now();
  StartVerifying();
  unsettled_.insert(links.begin(), links.end());
  settled_looks_ = 0;
  settling_ = loop_.After(kRoutesSettle.front(), [this] { HandleSettledRoutes(); });
}

void PortVerifier::StartVerifying() {
  unverified_.Start();
  if (!timer_) timer_ = loop_.After(kPause, [this] { VerifySome(); });
}

void PortVerifier::HandleSettledRoutes() {
  const std::vector<fabric::LinkId> links(unsettled_.begin(), unsettled_.end());
  learner_.HandleLinkChange(links);
  StartVerifying();
  const Duration looked = kRoutesSettle[settled_looks_];
  if (++settled_looks_ == kRoutesSettle.size()) return unsettled_.clear();
  settling_ =
      loop_.After(kRoutesSettle[settled_looks_] - looked, [this] { HandleSettledRoutes(); });
}

void PortVerifier::HandleDrain() { schedule_.Hurry({.fabric = true}, loop_.Now()); }

void PortVerifier::VerifySome() {
  timer_.reset();
  const bool has_patience = loop_.Now() - links_changed_ < kAcknowledgementPatience;
  if (!has_patience || !callbacks_.awaits_acknowledgements()) {
    unverified_.Visit(
        kFlowsAtOnce, [&](FlowSlot slot) { placement_.VerifyPorts(slot); },
        [&](const EdgeReservation& edge) {
          const auto known = state_.path_map.Find(edge.key, edge.source_port);
          if (known && known->trust != fabric::PortTrust::kVerified) {
            learner_.Verify(edge.key, edge.source_port);
          }
        });
    callbacks_.request_turn();
  }
  if (unverified_.IsOver()) return;
  timer_ = loop_.After(kPause, [this] { VerifySome(); });
}

void PortVerifier::HandleFindings(const PathLearner::Findings& findings) {
  const TimePoint now = loop_.Now();
  verified_.Add(static_cast<std::int64_t>(findings.answered.size()));
  for (const PathLearner::AnsweredPort& answered : findings.answered) {
    schedule_.HandleAnswer({answered.key, answered.port}, options_.verification, now);
  }
  FollowSpraying(findings);
  for (const PathLearner::Mismatch& mismatch : findings.mismatches) {
    if (IsSprayed(mismatch.key)) continue;
    const auto from = state_.paths.FindAttachment(mismatch.key.source);
    const auto to = state_.paths.FindAttachment(mismatch.key.destination);
    if (!from || !to) continue;
    // A wrong prediction says nothing about ports that probes have seen.
    if (mismatch.was_verified) {
      placement_.HandleReachablePaths(now);
      detector_.HandleMismatch(from->leaf, to->leaf,
                               fabric::HostOf(state_.topology.node(mismatch.key.source)),
                               hosts_.VoicesNeeded(from->leaf), now);
    }
    schedule_.Hurry({.pairs = {{from->leaf, to->leaf}}}, now);
  }
  for (const fabric::PortKey& key : findings.changed) NoteUnreachable(key);
}

SprayDetector::Sender PortVerifier::SenderOf(const fabric::PortKey& key) const {
  const auto from = state_.paths.FindAttachment(key.source);
  return {from ? from->leaf : key.source, fabric::HostOf(state_.topology.node(key.source))};
}

bool PortVerifier::IsSprayed(const fabric::PortKey& key) const {
  return !state_.notices.sprayed_hosts.empty() &&
         state_.notices.sprayed_hosts.contains(SenderOf(key));
}

void PortVerifier::FollowSpraying(const PathLearner::Findings& findings) {
  for (const PathLearner::AnsweredPort& answered : findings.answered) {
    const auto known = state_.path_map.Find(answered.key, answered.port);
    if (!known) continue;
    std::optional<fabric::PathIndex> before;
    for (const PathLearner::Mismatch& mismatch : findings.mismatches) {
      const bool is_same = mismatch.key == answered.key && mismatch.port == answered.port;
      if (is_same && mismatch.was_verified) before = mismatch.expected;
    }
    if (spray_detector_.HandleSighting(SenderOf(answered.key), {answered.key, answered.port},
                                       known->path, before, loop_.Now())) {
      learner_.Verify(answered.key, answered.port);
      callbacks_.request_turn();
    }
  }
  for (const SprayDetector::Verdict& verdict : spray_detector_.TakeVerdicts()) {
    HandleSprayVerdict(verdict);
  }
}

void PortVerifier::HandleSprayVerdict(const SprayDetector::Verdict& verdict) {
  const fabric::PortKey& key = verdict.port.key;
  const auto to = state_.paths.FindAttachment(key.destination);
  if (!to) return;
  const auto& [leaf, host] = verdict.sender;
  const auto paths = state_.paths.Between(leaf, to->leaf);
  const auto& hops = paths[verdict.path.Index()].hops;
  const auto divides = std::ranges::mismatch(hops, paths[verdict.other.Index()].hops).in1;
  const fabric::NodeId at = divides == hops.end() ? leaf : state_.topology.From(*divides);
  if (verdict.sprays) {
    state_.notices.sprayed_hosts[verdict.sender] = at;
    state_.history.RecordOf(
        "paths", loop_.Now(), "switch_sprays",
        fmt::format(
            "switch={} host={} toward={} port={} remedy=\"let the switch hash flows, or leave "
            "them to it\"",
            state_.topology.node(at).id, host, state_.topology.node(to->leaf).id,
            verdict.port.port));
  } else {
    const auto found = state_.notices.sprayed_hosts.find(verdict.sender);
    if (found == state_.notices.sprayed_hosts.end()) return;
    state_.history.RecordOf(
        "paths", loop_.Now(), "switch_sprays_no_longer",
        fmt::format("switch={} host={}", state_.topology.node(found->second).id, host));
    state_.notices.sprayed_hosts.erase(found);
  }
  placement_.ApplySteering();
  callbacks_.request_turn();
}

void PortVerifier::NoteUnreachable(const fabric::PortKey& key) {
  const auto from = state_.paths.FindAttachment(key.source);
  const auto to = state_.paths.FindAttachment(key.destination);
  if (!from || !to || unreachable_.Contains({from->leaf, to->leaf})) return;
  const auto unreachable =
      FindUnreachable(state_.path_map, key, state_.paths.Between(from->leaf, to->leaf));
  if (unreachable.empty()) return;
  unreachable_.Add({from->leaf, to->leaf}, key);
  if (told_unreachable_.insert(from->leaf).second) TellUnreachable(key, unreachable);
}

void PortVerifier::TellUnreachable(const fabric::PortKey& key,
                                   std::span<const fabric::PathIndex> unreachable) {
  const auto from = state_.paths.FindAttachment(key.source);
  const auto to = state_.paths.FindAttachment(key.destination);
  const auto paths = state_.paths.Between(from->leaf, to->leaf);
  std::string named;
  for (const fabric::PathIndex path :
       unreachable.first(std::min(unreachable.size(), kPathsNamed))) {
    if (!named.empty()) named += ',';
    named += fabric::ViaNames(state_.topology, paths[path.Index()]);
  }
  state_.history.RecordOf(
      "paths", loop_.Now(), "paths_unreachable",
      fmt::format("leaf={} toward={} unreachable={} paths={} via={}",
                  state_.topology.node(from->leaf).id, state_.topology.node(to->leaf).id,
                  unreachable.size(), paths.size(), named));
}

void PortVerifier::RecheckUnreachable() {
  const auto holds = [&](const UnreachablePairs::LeafPair& pair, const fabric::PortKey& key) {
    const auto paths = state_.paths.Between(pair.first, pair.second);
    return !FindUnreachable(state_.path_map, key, paths).empty();
  };
  for (const fabric::PortKey& key : unreachable_.Take(loop_.Now(), holds)) {
    const std::vector<fabric::PortEntry>& ports = state_.path_map.Ports(key);
    for (std::size_t i = 0; i < std::min(kPortsRechecked, ports.size()); ++i) {
      const std::size_t place = unreachable_.rounds() * kPortsRechecked + i;
      learner_.Verify(key, ports[place % ports.size()].port);
    }
    callbacks_.request_turn();
  }
}

void PortVerifier::Tick() {
  if (options_.verification.interval == Duration::zero()) return;
  NoteSome();
  RecheckUnreachable();
  for (const SprayDetector::Port& due : spray_detector_.TakeDue(loop_.Now())) {
    learner_.Verify(due.key, due.port);
  }
  for (const SprayDetector::Verdict& verdict : spray_detector_.TakeVerdicts()) {
    HandleSprayVerdict(verdict);
  }
  const RehashScope scope = detector_.Take(loop_.Now());
  if (!scope.IsEmpty()) LearnAgain(scope);
  for (const UsedPort& used : schedule_.Take(options_.verification, loop_.Now())) {
    learner_.Verify(used.key, used.port);
  }
}

void PortVerifier::NoteSome() {
  if (in_use_.IsOver()) {
    schedule_.EndRound();
    ports_.Set(static_cast<double>(schedule_.size()));
    oldest_seconds_.Set(SecondsOf(schedule_.OldestAge(loop_.Now())));
    in_use_.Start();
  }
  const std::size_t all = state_.flows.slot_count() + state_.edges.all().size();
  in_use_.Visit(
      all / kTicksOfRound + 1,
      [&](FlowSlot slot) {
        const Flow& flow = state_.flows.At(slot);
        if (flow.status == FlowStatus::kUnsteered && flow.subflows.size() == 1) {
          return Note(flow.key, flow.own_port);  // where it counts as load
        }
        if (flow.status != FlowStatus::kRouted && flow.status != FlowStatus::kLearning) return;
        for (const Subflow& subflow : flow.subflows) {
          if (subflow.port != 0) Note(flow.key, subflow.port);
          if (subflow.standby_port != 0) Note(flow.key, subflow.standby_port);
        }
      },
      [&](const EdgeReservation& edge) { Note(edge.key, edge.source_port); });
}

void PortVerifier::Note(const fabric::PortKey& key, std::uint16_t port) {
  if (port == 0 || !learner_.CanProbe(key) || IsSprayed(key)) return;
  const auto from = state_.paths.FindAttachment(key.source);
  const auto to = state_.paths.FindAttachment(key.destination);
  if (!from || !to) return;
  const auto paths = state_.paths.Between(from->leaf, to->leaf);
  if (paths.size() < 2) return;
  // One probe for each switch on the way up.
  const std::size_t switches_up = std::max<std::size_t>(1, paths.front().hops.size() / 2);
  const auto probes = static_cast<double>(switches_up);
  schedule_.Note({key, port}, {from->leaf, to->leaf, probes}, options_.verification, loop_.Now());
}

void PortVerifier::LearnAgain(const RehashScope& scope) {
  learner_.LearnAgain(scope);
  schedule_.Hurry(scope, loop_.Now());
  pairs_learned_again_.Add(static_cast<std::int64_t>(scope.pairs.size()));
  switches_learned_again_.Add(static_cast<std::int64_t>(scope.sources.size()));
  if (scope.fabric) told_unreachable_.clear();
  for (const fabric::NodeId source : scope.sources) {
    told_unreachable_.erase(source);
    state_.history.Record(loop_.Now(), "switch_rehashed",
                          fmt::format("switch={}", state_.topology.node(source).id));
  }
  if (scope.fabric) {
    fabrics_learned_again_.Add();
    state_.history.Record(loop_.Now(), "fabric_rehashed",
                          fmt::format("ports_in_use={}", schedule_.size()));
  }
  unreachable_.Forget(scope);
  callbacks_.request_turn();
}

}  // namespace espalier::controller
