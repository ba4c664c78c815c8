#include "agent/flows/guard/path_guard.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/log.h"

// Each stuck flow has a Watch and goes through checks, one at a time.
//
// Problem: a dead path carries nothing, but neither does a live path to a receiver that has
// stopped. The host must distinguish these quickly, without the controller, and without moving
// flows off healthy paths.
// Idea: compare paths. A check probes the ports of the flow and some random candidates. Answers for
// candidates but not for the flow's own ports are evidence against the path. Silence on all of them
// accuses nothing, and then only growing retries count. A new port is drawn at random (PortDraw); a
// candidate that was answered is preferred.
// Standby paths, which the controller has chosen for this moment, come before all others, and make
// it safe to look early: what they might do to other flows is part of its plan. As a lost probe or
// a long queue looks like a dead path for a moment, a short check is repeated before it counts.
// Invariant: a watch has at most one check in flight, and all watches together have at most
// `max_checks`. The probe budget bounds what programs can make the agent send.
// Cost: a check sends own_ports + candidates probes. Its interval doubles when a port is left to
// which the flow had moved lately, and while the budget is short, up to
// `max_local_reroute_interval`. Each look is O(n log n) in the elephants' paths.

namespace espalier::agent {
namespace {

constexpr int kMissesOfDeadPath = 2;
// How many round trips without any progress or answer are no queue. A long queue delays a flow and
// its probes, while a standby path, which is idle, answers at once.
constexpr int kRoundTripsOfSilence = 3;
// TCP repeats nothing before (RFC 6298 and Linux).
constexpr Duration kFirstTcpTimeout = std::chrono::milliseconds(200);
// The pause after a short check that found nothing, in times of its timeout.
constexpr int kPauseAfterShortCheck = 3;

// As the flow's transport measures it; zero: unknown.
Duration RoundTrip(const FlowSample& sample) { return std::chrono::microseconds(sample.rtt_us); }

bool Contains(const std::vector<std::uint16_t>& ports, std::uint16_t port) {
  return std::find(ports.begin(), ports.end(), port) != ports.end();
}

}  // namespace

PathGuard::PathGuard(const PathGuardOptions& options, EventLoop& loop, Prober& prober,
                     PortTable& ports, Metrics& metrics, std::uint64_t seed, OnHealth on_health)
    : options_(options),
      loop_(loop),
      prober_(prober),
      ports_(ports),
      local_reroutes_(metrics.MakeCounter("espalier_agent_local_reroutes_total",
                                          "Flows that the agent rerouted locally off a dead path")),
      standby_moves_(metrics.MakeCounter(
          "espalier_agent_standby_moves_total",
          "Dead paths that the agent replaced by a standby path of the controller")),
      early_moves_(metrics.MakeCounter(
          "espalier_agent_early_moves_total",
          "Moves away from paths whose links probes of other flows had found dead")),
      checks_put_off_(metrics.MakeCounter(
          "espalier_agent_path_checks_deferred_total",
          "Checks of flows that were delayed because the probe budget was used up")),
      budget_(options.budget, loop.Now()),
      recovery_(metrics),
      repeats_(options.transports.repeated_requests),
      basis_(options.transports),
      draw_(seed),
      on_health_(std::move(on_health)) {}

void PathGuard::HandleMeasures(std::span<const FlowMeasure> flows) {
  std::vector<PortDraw::PortInUse> in_use;
  for (const FlowMeasure& flow : flows) {
    for (const std::uint16_t port : OwnPorts(*flow.sample)) {
      in_use.emplace_back(flow.sample->destination, port);
    }
  }
  draw_.SetInUse(std::move(in_use));
  repeats_.HandleMeasures(loop_.Now(), flows);
  basis_.HandleMeasures(loop_.Now(), flows);
  evidence_.HandleLook(loop_.Now(), ports_.highest_epoch());

  auto watch = watches_.begin();
  for (const FlowMeasure& flow : flows) {
    while (watch != watches_.end() && watch->first < flow.sample->id) {
      watch = watches_.erase(watch);  // ended
    }
    if (watch != watches_.end() && watch->first == flow.sample->id) ++watch;
    EvaluateFlow(flow);
  }
  watches_.erase(watch, watches_.end());
  NoteMoves();
  wire::PathHealth recovered = recovery_.HandleMeasures(loop_.Now(), flows);
  std::ranges::move(recovered.flows, std::back_inserter(pending_health_.flows));
  if (!pending_health_.flows.empty()) on_health_(std::exchange(pending_health_, {}));
}

void PathGuard::NoteMoves() {
  recent_moves_.Repeat(loop_.Now(), ports_);
  recovery_.HandleMoved(loop_.Now(), ports_.TakeMovedOffDead());
}

Duration PathGuard::EarlyPatience(const FlowSample& sample) const {
  // Programs tell the progress of their connections from time to time only.
  const int times = sample.protocol == wire::kProtocolTcp ? 2 : 1;
  return std::max(times * options_.standby_after, kRoundTripsOfSilence * RoundTrip(sample));
}

Duration PathGuard::Patience(const FlowSample& sample) const {
  const bool may_be_early =
      options_.standby_after != Duration::zero() && ports_.HasStandby(sample.id);
  return may_be_early ? std::min(EarlyPatience(sample), options_.dead_after) : options_.dead_after;
}

const PortMeasure& PathGuard::MeasureOf(const Watch& watch, std::uint16_t port) {
  const auto stuck = std::ranges::find(watch.stuck_ports, port, &PortMeasure::source_port);
  return stuck == watch.stuck_ports.end() ? watch.whole : *stuck;
}

bool PathGuard::IsUnacknowledged(const Watch& watch, std::uint16_t port) const {
  if (watch.sample.protocol != wire::kProtocolTcp) return false;
  const PortMeasure& measure = MeasureOf(watch, port);
  return measure.retries_grew && measure.without_progress >= kFirstTcpTimeout &&
         measure.since_retry >= EarlyPatience(watch.sample);
}

void PathGuard::EvaluateFlow(const FlowMeasure& flow) {
  const FlowSample& sample = *flow.sample;
  const wire::PathSet* const plan = ports_.Find(sample.id);
  const double planned = plan != nullptr ? static_cast<double>(plan->max_rate_bps) : 0;
  const Duration patience = Patience(sample);
  std::vector<PortMeasure> stuck_ports = StuckPorts(flow, patience);
  const bool only_acknowledges =
      repeats_.MayBeUnheard(sample, loop_.Now()) && ports_.HasStandby(sample.id);
  const bool is_stuck =
      flow.without_progress >= patience || !stuck_ports.empty() || only_acknowledges;
  if (!is_stuck) stuck_ports = SuspectPorts(flow);
  const bool is_suspect = !stuck_ports.empty() && !is_stuck;
  const bool stuck = is_stuck || is_suspect;
  const bool slow =
      flow.busy && static_cast<double>(flow.achieved_bps) < options_.slow_fraction * planned;
  auto known = watches_.find(sample.id);
  if (known == watches_.end()) {
    if (!stuck && !slow) return;
    known = watches_.emplace(sample.id, Watch{.interval = options_.local_reroute_interval}).first;
  }
  Watch& watch = known->second;
  watch.sample = sample;
  watch.achieved_bps = flow.achieved_bps;
  watch.stuck = stuck;
  watch.only_acknowledges = only_acknowledges;
  if (std::exchange(watch.is_suspect, is_suspect) && is_stuck) {  // it need not wait for others
    watch.interval = options_.local_reroute_interval;
    watch.next_check = loop_.Now();
  }
  watch.whole = {.without_progress = flow.without_progress,
                 .retries_grew = flow.retries_grew,
                 .since_retry = flow.since_retry};
  watch.stuck_ports = std::move(stuck_ports);
  if (stuck) {
    auto ports = MayCheck(watch) ? PortsToCheck(watch) : std::nullopt;
    if (ports) StartCheck(sample.id, watch, std::move(*ports));
    return;
  }
  // A flow that has gone to other ports is not well before it makes progress there.
  const bool is_on_trial = watch.verdict == wire::PathVerdict::kLocallyRerouted;
  const bool is_early = !flow.ports.empty() && loop_.Now() < watch.rerouted + options_.dead_after;
  if (is_on_trial && (is_early || LongestPause(flow) >= options_.standby_after)) return;
  watch.interval = options_.local_reroute_interval;
  watch.misses.clear();
  watch.on_trial.clear();
  SetVerdict(watch, slow ? wire::PathVerdict::kSlow : wire::PathVerdict::kGood);
  if (!slow && !watch.checking) watches_.erase(known);
}

std::vector<PortMeasure> PathGuard::StuckPorts(const FlowMeasure& flow, Duration patience) const {
  std::vector<PortMeasure> stuck;
  if (flow.ports.empty()) return stuck;
  const std::vector<std::uint16_t> own_ports = OwnPorts(*flow.sample);
  for (const PortMeasure& port : flow.ports) {
    if (port.without_progress < patience) continue;
    if (Contains(own_ports, port.source_port)) stuck.push_back(port);
  }
  return stuck;
}

std::vector<PortMeasure> PathGuard::SuspectPorts(const FlowMeasure& flow) const {
  if (evidence_.empty()) return {};
  const wire::PathSet* const set = ports_.Find(flow.sample->id);
  const bool may_be_early =
      options_.standby_after != Duration::zero() && options_.standby_after < options_.dead_after;
  if (!may_be_early || set == nullptr || !ports_.HasStandby(flow.sample->id)) return {};
  return evidence_.SuspectPorts(flow, *set);
}

bool PathGuard::MayCheck(const Watch& watch) const {
  const FlowSample& sample = watch.sample;
  if (!sample.movable || ports_.IsUnsteered(sample.id) || watch.checking) return false;
  if (!watch.is_suspect) return checks_ < options_.max_checks;
  return checks_ < options_.max_checks / 2 && loop_.Now() >= budget_short_until_;
}

void PathGuard::SetVerdict(Watch& watch, wire::PathVerdict verdict) {
  if (watch.verdict == verdict) return;
  watch.verdict = verdict;
  pending_health_.flows.push_back(Health(watch));
}

wire::PathBasis PathGuard::BasisOf(const Watch& watch, std::uint16_t port) {
  if (Contains(watch.shown_dead, port)) return wire::PathBasis::kProbed;
  return basis_.Find(loop_.Now(), watch.sample, port, MeasureOf(watch, port).without_progress);
}

void PathGuard::ReportLeft(const Watch& watch, const LeftPath& left, std::uint16_t port) {
  wire::FlowHealth health = Health(watch);
  health.basis = left.basis;
  health.path_id = left.path.path_id;
  health.source_port = port != 0 ? port : left.path.source_port;
  if (port != 0) {
    health.left_port = left.path.source_port;
    health.answered = Contains(watch.answered, health.left_port);
    Log(LogLevel::kInfo,
        "event=path_locally_rerouted flow={} port={} left_port={} lost={} basis={}",
        health.flow.value(), port, health.left_port, health.answered ? "acknowledgements" : "all",
        BasisName(health.basis));
  }
  pending_health_.flows.push_back(health);
}

wire::FlowHealth PathGuard::Health(const Watch& watch) const {
  wire::FlowHealth health{.flow = watch.sample.id,
                          .source_port = watch.sample.source_port,
                          .achieved_bps = watch.achieved_bps,
                          .rtt_us = watch.sample.rtt_us,
                          .verdict = watch.verdict};
  if (const wire::PathSet* const plan = ports_.Find(watch.sample.id)) {
    health.path_id = plan->paths.front().path_id;
    health.source_port = plan->paths.front().source_port;
    health.planned_bps = plan->max_rate_bps;
  }
  return health;
}

std::vector<std::uint16_t> PathGuard::OwnPorts(const FlowSample& sample) const {
  std::vector<std::uint16_t> ports;
  if (const wire::PathSet* const set = ports_.Find(sample.id)) {
    for (const wire::FlowPath& path : set->paths) ports.push_back(path.source_port);
  } else if (sample.source_port != 0) {
    ports.push_back(sample.source_port);
  }
  return ports;
}

Duration PathGuard::ShortTimeout(const FlowSample& sample) const {
  return std::min(options_.check_timeout,
                  std::max(options_.short_check_timeout, kRoundTripsOfSilence * RoundTrip(sample)));
}

std::optional<std::vector<std::uint16_t>> PathGuard::PortsToCheck(const Watch& watch) const {
  const bool is_due = loop_.Now() >= watch.next_check;
  std::vector<std::uint16_t> ports;
  for (const PortMeasure& port : watch.stuck_ports) ports.push_back(port.source_port);
  if (ports.empty()) ports = OwnPorts(watch.sample);
  if (ports.empty() && is_due) return ports;
  std::erase_if(ports, [&](std::uint16_t port) {
    const bool is_on_trial = Contains(watch.on_trial, port) && loop_.Now() < watch.next_trial_check;
    return is_on_trial || !(is_due || IsUnacknowledged(watch, port));
  });
  if (ports.empty()) return std::nullopt;
  return ports;
}

void PathGuard::StartCheck(wire::LocalFlowId flow, Watch& watch, std::vector<std::uint16_t> ports) {
  Duration longest = watch.stuck_ports.empty() ? watch.whole.without_progress : Duration::zero();
  for (const PortMeasure& port : watch.stuck_ports) {
    if (Contains(ports, port.source_port)) longest = std::max(longest, port.without_progress);
  }
  watch.is_short = longest < options_.dead_after || watch.only_acknowledges;
  watch.own_ports = std::move(ports);
  watch.answered.clear();
  std::vector<std::uint16_t> probed = watch.own_ports;
  ChooseCandidates(watch, probed);
  if (!Contains(options_.probe_ports, watch.sample.destination_port)) return EndCheck(watch);
  if (!budget_.Take(watch.sample.destination, probed.size(), loop_.Now())) {
    if (!watch.is_suspect) budget_short_until_ = loop_.Now() + options_.max_local_reroute_interval;
    return checks_put_off_.Add();  // the check stays due
  }
  watch.checking = true;
  ++checks_;
  wire::ProbeOrder order{
      .source = watch.sample.source,
      .destination = watch.sample.destination,
      .destination_port = watch.sample.destination_port,
      .destination_qpn = options_.fabric_hashes_qpn ? watch.sample.remote_qpn : 0,
      .flow_protocol = watch.sample.protocol,
      .source_ports = std::move(probed),
      .ttls = {ProbeTtl(watch)},
      .probes_per_second = 100'000};
  order.timeout_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(
          watch.is_short ? ShortTimeout(watch.sample) : options_.check_timeout)
          .count());
  prober_.StartUrgent(std::move(order), [this, flow](const wire::ProbeReport& report) {
    HandleAnswers(flow, report);
  });
}

std::uint8_t PathGuard::ProbeTtl(const Watch& watch) const {
  std::size_t links = SIZE_MAX;
  for (const wire::FlowPath& path : watch.known_paths) {
    if (!path.links.empty()) links = std::min(links, path.links.size());
  }
  return links == SIZE_MAX ? options_.probe_ttl : static_cast<std::uint8_t>(links + 1);
}

void PathGuard::ChooseCandidates(Watch& watch, std::vector<std::uint16_t>& probed) {
  const auto add = [&](std::uint16_t port) {
    watch.candidates.push_back(port);
    probed.push_back(port);
  };
  watch.candidates.clear();
  watch.standbys = ports_.StandbysOf(watch.sample.id);
  for (const wire::FlowPath& standby : watch.standbys) add(standby.source_port);
  watch.known_paths = watch.standbys;
  if (const wire::PathSet* const set = ports_.Find(watch.sample.id)) {
    watch.known_paths.insert(watch.known_paths.end(), set->paths.begin(), set->paths.end());
  }
  while (!watch.is_short && watch.candidates.size() < options_.candidates) {
    add(draw_.Draw(watch.sample.destination, probed));
  }
}

void PathGuard::HandleAnswers(wire::LocalFlowId flow, const wire::ProbeReport& report) {
  if (report.done) --checks_;
  const auto known = watches_.find(flow);
  if (known == watches_.end()) return;  // the flow has ended
  Watch& watch = known->second;
  for (const wire::ProbeAnswer& answer : report.answers) {
    watch.answered.push_back(answer.source_port);
  }
  if (!report.done) return;
  watch.checking = false;
  EndCheck(watch);
  if (!pending_health_.flows.empty()) on_health_(std::exchange(pending_health_, {}));
}

void PathGuard::EndCheck(Watch& watch) {
  watch.next_check = loop_.Now() + watch.interval;
  // Flows that were checked leave a short budget to those that wait.
  if (loop_.Now() < budget_short_until_) BackOff(watch);
  evidence_.HandleProbes(loop_.Now(), watch.known_paths, watch.answered, {});
  watch.shown_dead.clear();
  if (!watch.stuck) return;
  const std::vector<std::uint16_t> dead =
      watch.is_short ? EndShortCheck(watch) : EndLongCheck(watch);
  if (dead.empty()) return;
  evidence_.HandleProbes(loop_.Now(), watch.known_paths, watch.answered, watch.shown_dead);
  const bool is_again =
      std::ranges::any_of(dead, [&](std::uint16_t port) { return Contains(watch.on_trial, port); });
  if (is_again) BackOff(watch);
  RerouteLocally(watch, dead);
  watch.rerouted = loop_.Now();
  watch.next_trial_check = loop_.Now() + watch.interval;
  watch.next_check = loop_.Now();  // of its other subflows
}

std::vector<std::uint16_t> PathGuard::EndLongCheck(Watch& watch) const {
  std::vector<std::uint16_t> dead;
  for (const std::uint16_t port : watch.own_ports) {
    const bool is_silent = !watch.answered.empty() && !Contains(watch.answered, port);
    if (is_silent) watch.shown_dead.push_back(port);
    if (is_silent || IsUnacknowledged(watch, port)) dead.push_back(port);
  }
  return dead.empty() ? RetryingPorts(watch) : dead;
}

std::vector<std::uint16_t> PathGuard::EndShortCheck(Watch& watch) const {
  std::vector<std::uint16_t> dead;
  watch.early = 0;
  bool must_repeat = false;
  for (const std::uint16_t port : watch.own_ports) {
    const bool was_compared = !watch.candidates.empty() && !watch.answered.empty();
    const bool is_missed = was_compared && !Contains(watch.answered, port);
    int& misses = watch.misses[port];
    misses = is_missed ? misses + 1 : 0;
    const bool has_enough = misses >= kMissesOfDeadPath;
    const int of_others = evidence_.IsDead(watch.known_paths, port) ? 1 : 0;
    const bool is_dead = has_enough || (is_missed && misses + of_others >= kMissesOfDeadPath);
    if (is_dead) watch.shown_dead.push_back(port);
    if (is_dead || IsUnacknowledged(watch, port)) {
      if (is_dead && (watch.is_suspect || !has_enough)) ++watch.early;
      dead.push_back(port);
      misses = 0;
    }
    must_repeat = must_repeat || misses > 0;
  }
  if ((watch.only_acknowledges || watch.is_suspect) && !must_repeat) {
    BackOff(watch);
    watch.next_check = loop_.Now() + watch.interval;
  } else {
    const int pause = must_repeat ? 0 : kPauseAfterShortCheck;
    watch.next_check = loop_.Now() + pause * ShortTimeout(watch.sample);
  }
  return dead;
}
void PathGuard::BackOff(Watch& watch) const {
  watch.interval = std::min(2 * watch.interval, options_.max_local_reroute_interval);
}

std::vector<std::uint16_t> PathGuard::RetryingPorts(const Watch& watch) {
  std::vector<std::uint16_t> retrying;
  for (const PortMeasure& port : watch.stuck_ports) {
    const bool was_asked = Contains(watch.own_ports, port.source_port);
    if (port.retries_grew && was_asked) retrying.push_back(port.source_port);
  }
  // Retries of the flow as a whole count for all its paths.
  if (watch.stuck_ports.empty() && watch.whole.retries_grew) return watch.own_ports;
  return retrying;
}

std::vector<wire::FlowPath> PathGuard::DrawPaths(const Watch& watch, std::size_t count) {
  // Whether a path that answered, a standby that was not asked or did not answer, or any other port
  // works is less and less certain.
  std::vector<wire::FlowPath> drawn;
  std::vector<std::uint16_t> taken = watch.own_ports;
  const auto take = [&](const wire::FlowPath& path) {
    if (Contains(taken, path.source_port)) return;
    drawn.push_back(path);
    taken.push_back(path.source_port);
  };
  const auto has_answered = [&](std::uint16_t port) { return Contains(watch.answered, port); };
  for (const wire::FlowPath& standby : watch.standbys) {
    if (has_answered(standby.source_port)) take(standby);
  }
  for (const std::uint16_t port : watch.candidates) {
    if (has_answered(port)) take({.source_port = port, .encoding = {}});
  }
  if (watch.answered.empty()) {
    for (const wire::FlowPath& standby : watch.standbys) {
      if (!evidence_.IsSuspect(standby)) take(standby);
    }
  }
  while (drawn.size() < count) {
    drawn.push_back({.source_port = draw_.Draw(watch.sample.destination, taken), .encoding = {}});
    taken.push_back(drawn.back().source_port);
  }
  return drawn;
}

void PathGuard::RerouteLocally(Watch& watch, const std::vector<std::uint16_t>& dead) {
  wire::PathSet set;
  set.flow = watch.sample.id;
  if (const wire::PathSet* const current = ports_.Find(set.flow)) {
    set = *current;
  } else {
    set.paths.push_back({.source_port = watch.sample.source_port, .encoding = {}});
  }
  set.reason = wire::PathReason::kPathDead;
  const std::vector<wire::FlowPath> drawn = DrawPaths(watch, set.paths.size());
  std::vector<LeftPath> left;
  std::int64_t to_standbys = 0;
  for (wire::FlowPath& path : set.paths) {
    // If the flow's ports are unknown, all its paths count as dead.
    if (!Contains(dead, path.source_port) && !watch.own_ports.empty()) continue;
    const wire::FlowPath& next = drawn[left.size()];
    left.push_back({path, next, BasisOf(watch, path.source_port)});
    watch.misses.erase(path.source_port);
    path = {.source_port = next.source_port,
            .weight = path.weight,
            .path_id = next.path_id,
            .encoding = {},
            .links = next.links};
    if (next.IsStandby()) ++to_standbys;
  }
  if (left.empty()) return;  // the controller replaced the path while it was checked
  for (const auto& [path, next, basis] : left) {
    std::erase(watch.on_trial, path.source_port);
    watch.on_trial.push_back(next.source_port);
  }
  if (const Result<void> applied = ports_.RerouteLocally(set); !applied) {
    Log(LogLevel::kWarning, "event=local_reroute_failed flow={} cause=\"{}\"", set.flow.value(),
        applied.error().message);
    if (watch.verdict == wire::PathVerdict::kDead) return;
    watch.verdict = wire::PathVerdict::kDead;
    for (const LeftPath& each : left) ReportLeft(watch, each, 0);
    return;
  }
  local_reroutes_.Add();
  standby_moves_.Add(to_standbys);
  watch.verdict = wire::PathVerdict::kLocallyRerouted;
  early_moves_.Add(watch.is_short ? watch.early : 0);
  for (const LeftPath& each : left) {
    recent_moves_.Add(loop_.Now(), set.flow, each.path.source_port, each.next);
    ReportLeft(watch, each, each.next.source_port);
  }
}

}  // namespace espalier::agent
