#include "agent/flows/path_guard.h"

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
// accuses nothing, and then only growing retries count. A new port is drawn at random, as the agent
// does not know which path a port takes (RLM 3.5.5); a candidate that was answered is preferred.
// Invariant: a watch has at most one check in flight, and all watches together have at most
// `max_checks`. The probe budget bounds what programs can make the agent send.
// Cost: a check sends own_ports + candidates probes. Its interval doubles after each local reroute
// and while the budget is short, up to `max_local_reroute_interval`. Each look is O(n log n) in the
// elephants' paths, for the sorted list of ports in use.

namespace espalier::agent {
namespace {

constexpr std::uint16_t kFirstRocePort = 0xC000;
constexpr int kRocePortMask = 0x3FFF;
constexpr int kDrawAttempts = 64;

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
      checks_put_off_(metrics.MakeCounter(
          "espalier_agent_path_checks_deferred_total",
          "Checks of flows that were delayed because the probe budget was used up")),
      budget_(options.budget, loop.Now()),
      recovery_(metrics),
      random_(seed),
      on_health_(std::move(on_health)) {}

void PathGuard::HandleMeasures(std::span<const FlowMeasure> flows) {
  in_use_.clear();
  for (const FlowMeasure& flow : flows) {
    for (const std::uint16_t port : OwnPorts(*flow.sample)) {
      in_use_.emplace_back(flow.sample->destination, port);
    }
  }
  std::sort(in_use_.begin(), in_use_.end());

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

void PathGuard::NoteMoves() { recovery_.HandleMoved(loop_.Now(), ports_.TakeMovedOffDead()); }

void PathGuard::EvaluateFlow(const FlowMeasure& flow) {
  const FlowSample& sample = *flow.sample;
  const wire::PathSet* const plan = ports_.Find(sample.id);
  const double planned = plan != nullptr ? static_cast<double>(plan->max_rate_bps) : 0;
  std::vector<PortMeasure> stuck_ports = StuckPorts(flow);
  const bool stuck = flow.without_progress >= options_.dead_after || !stuck_ports.empty();
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
  watch.retries_grew = flow.retries_grew;
  watch.stuck_ports = std::move(stuck_ports);
  if (stuck) {
    if (sample.movable && !ports_.IsUnsteered(sample.id) && !watch.checking &&
        loop_.Now() >= watch.next_check && checks_ < options_.max_checks) {
      StartCheck(sample.id, watch);
    }
    return;
  }
  watch.interval = options_.local_reroute_interval;
  SetVerdict(watch, slow ? wire::PathVerdict::kSlow : wire::PathVerdict::kGood);
  if (!slow && !watch.checking) watches_.erase(known);
}

std::vector<PortMeasure> PathGuard::StuckPorts(const FlowMeasure& flow) const {
  std::vector<PortMeasure> stuck;
  if (flow.ports.empty()) return stuck;
  const std::vector<std::uint16_t> own_ports = OwnPorts(*flow.sample);
  for (const PortMeasure& port : flow.ports) {
    if (port.without_progress < options_.dead_after) continue;
    if (Contains(own_ports, port.source_port)) stuck.push_back(port);
  }
  return stuck;
}

void PathGuard::SetVerdict(Watch& watch, wire::PathVerdict verdict) {
  if (watch.verdict == verdict) return;
  watch.verdict = verdict;
  pending_health_.flows.push_back(Health(watch));
}

void PathGuard::ReportPath(const Watch& watch, std::uint32_t path_id, std::uint16_t port) {
  wire::FlowHealth health = Health(watch);
  health.path_id = path_id;
  health.source_port = port;
  pending_health_.flows.push_back(health);
}

wire::FlowHealth PathGuard::Health(const Watch& watch) const {
  wire::FlowHealth health{.flow = watch.sample.id,
                          .source_port = watch.sample.source_port,
                          .achieved_bps = watch.achieved_bps,
                          .retries = watch.sample.retries,
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

std::uint16_t PathGuard::DrawPort(const IpAddress& destination,
                                  const std::vector<std::uint16_t>& without) {
  std::uint16_t port = 0;
  for (int attempt = 0; attempt < kDrawAttempts; ++attempt) {
    port = static_cast<std::uint16_t>(kFirstRocePort +
                                      (static_cast<int>(random_() & 0xFFFF) & kRocePortMask));
    const bool is_used =
        std::binary_search(in_use_.begin(), in_use_.end(), std::pair(destination, port));
    if (!is_used && !Contains(without, port)) break;
  }
  return port;  // nearly all ports are in use, so this one may be shared
}

void PathGuard::StartCheck(wire::LocalFlowId flow, Watch& watch) {
  watch.own_ports =
      watch.stuck_ports.empty() ? OwnPorts(watch.sample) : std::vector<std::uint16_t>();
  for (const PortMeasure& port : watch.stuck_ports) watch.own_ports.push_back(port.source_port);
  watch.candidates.clear();
  watch.answered.clear();
  if (!Contains(options_.probe_ports, watch.sample.destination_port)) return EndCheck(watch);
  const std::size_t probes = watch.own_ports.size() + options_.candidates;
  if (!budget_.Take(watch.sample.destination, probes, loop_.Now())) {
    budget_short_until_ = loop_.Now() + options_.max_local_reroute_interval;
    return checks_put_off_.Add();  // the check stays due
  }
  watch.checking = true;
  ++checks_;
  wire::ProbeOrder order{
      .source = watch.sample.source,
      .destination = watch.sample.destination,
      .destination_port = watch.sample.destination_port,
      .destination_qpn = options_.fabric_hashes_qpn ? watch.sample.remote_qpn : 0,
      .source_ports = watch.own_ports,
      .ttls = {options_.probe_ttl},
      .probes_per_second = 100'000};
  order.timeout_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(options_.check_timeout).count());
  for (std::size_t i = 0; i < options_.candidates; ++i) {
    const std::uint16_t port = DrawPort(watch.sample.destination, order.source_ports);
    watch.candidates.push_back(port);
    order.source_ports.push_back(port);
  }
  prober_.StartUrgent(std::move(order), [this, flow](const wire::ProbeReport& report) {
    HandleAnswers(flow, report);
  });
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
  if (!watch.stuck) return;
  std::vector<std::uint16_t> dead;
  for (const std::uint16_t port : watch.own_ports) {
    if (!Contains(watch.answered, port)) dead.push_back(port);
  }
  const bool probes_say_so = !dead.empty() && !watch.answered.empty();
  if (!probes_say_so) dead = RetryingPorts(watch);
  if (dead.empty()) return;
  RerouteLocally(watch, dead);
  BackOff(watch);
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
  if (watch.stuck_ports.empty() && watch.retries_grew) return watch.own_ports;
  return retrying;
}

void PathGuard::RerouteLocally(Watch& watch, const std::vector<std::uint16_t>& dead) {
  std::vector<std::uint16_t> choices;
  for (const std::uint16_t port : watch.candidates) {
    if (Contains(watch.answered, port)) choices.push_back(port);
  }
  std::vector<std::uint16_t> taken = watch.own_ports;
  const auto draw = [&] {
    std::uint16_t port = 0;
    if (!choices.empty()) {
      port = choices.back();
      choices.pop_back();
    } else {
      port = DrawPort(watch.sample.destination, taken);
    }
    taken.push_back(port);
    return port;
  };
  wire::PathSet set;
  set.flow = watch.sample.id;
  if (const wire::PathSet* const current = ports_.Find(set.flow)) {
    set = *current;
  } else {
    set.paths.push_back({.source_port = watch.sample.source_port, .encoding = {}});
  }
  set.reason = wire::PathReason::kPathDead;
  std::vector<std::pair<wire::FlowPath, std::uint16_t>> left;  // old path and its new port
  for (wire::FlowPath& path : set.paths) {
    // If the flow's ports are unknown, all its paths count as dead.
    if (!Contains(dead, path.source_port) && !watch.own_ports.empty()) continue;
    left.emplace_back(path, draw());
    path = {.source_port = left.back().second, .weight = path.weight, .path_id = 0, .encoding = {}};
  }
  if (left.empty()) return;  // the controller replaced the path while it was checked
  if (const Result<void> applied = ports_.RerouteLocally(set); !applied) {
    Log(LogLevel::kWarning, "event=local_reroute_failed flow={} cause=\"{}\"", set.flow.value(),
        applied.error().message);
    if (watch.verdict == wire::PathVerdict::kDead) return;
    watch.verdict = wire::PathVerdict::kDead;
    for (const auto& [path, port] : left) ReportPath(watch, path.path_id, path.source_port);
    return;
  }
  local_reroutes_.Add();
  watch.verdict = wire::PathVerdict::kLocallyRerouted;
  for (const auto& [path, port] : left) {
    ReportPath(watch, path.path_id, port);
    Log(LogLevel::kInfo, "event=path_locally_rerouted flow={} port={} left_port={}",
        set.flow.value(), port, path.source_port);
  }
}

}  // namespace espalier::agent
