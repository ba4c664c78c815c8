#include "controller/agents/path_health_intake.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::controller {
namespace {

// A host may report each path of a flow as failed once in this time. An agent checks again after
// twice as long at the earliest (PathGuardOptions::local_reroute_interval).
constexpr Duration kVerdictInterval = std::chrono::milliseconds(100);

}  // namespace

PathHealthIntake::PathHealthIntake(State& state, Placement& placement, LinkHealth& link_health,
                                   EventLoop& loop, Metrics& metrics)
    : state_(state),
      placement_(placement),
      link_health_(link_health),
      loop_(loop),
      weights_(state, state.decisions, state.history, loop, metrics),
      ignored_(metrics.MakeCounter(
          "espalier_controller_verdicts_ignored_total",
          "Path failure reports ignored because they followed the previous one too soon")),
      recovery_seconds_(metrics.MakeLatency(
          "espalier_flow_recovery_seconds",
          "Time from when a host had moved a flow off a dead path until the flow's bytes were "
          "acknowledged again, as agents report it")) {}

void PathHealthIntake::NoteRecovery(const std::string& host, const Flow& flow,
                                    const wire::FlowHealth& report) {
  const double seconds = 1e-6 * static_cast<double>(report.recovered_us);
  recovery_seconds_.ObserveSeconds(seconds);
  state_.history.RecordOf(host, loop_.Now(), "flow_recovered",
                          fmt::format("flow={} port={} seconds_after_move={:.3f}",
                                      state_.FlowName(flow), report.source_port, seconds));
}

bool PathHealthIntake::IsTaken(FlowSlot slot) {
  const TimePoint now = loop_.Now();
  const Flow& flow = state_.flows.At(slot);
  if (slot.Index() >= taken_.size()) taken_.resize(slot.Index() + 1);
  Taken& taken = taken_[slot.Index()];
  const bool is_same = taken.agent == flow.agent && taken.local == flow.local;
  if (!is_same || taken.count == 0 || now - taken.since >= kVerdictInterval) {
    taken = {flow.agent, flow.local, now, 0};
  }
  return taken.count++ < std::max<std::size_t>(1, flow.subflows.size());
}

bool PathHealthIntake::Handle(AgentId id, const wire::PathHealth& health) {
  const std::string& host = state_.agents.At(id).name;
  bool needs_turn = false;
  for (const wire::FlowHealth& report : health.flows) {
    const auto slot = state_.flows.Find(id, report.flow);
    const bool is_local_reroute = report.verdict == wire::PathVerdict::kLocallyRerouted;
    const bool is_dead = is_local_reroute || report.verdict == wire::PathVerdict::kDead;
    if (!slot) continue;
    if (report.recovered_us != 0) {
      NoteRecovery(host, state_.flows.At(*slot), report);
      continue;
    }
    if (!is_dead) {
      const bool is_seen =
          report.basis == wire::PathBasis::kKernel || report.basis == wire::PathBasis::kDevice;
      if (is_seen && report.retries > 0) {
        link_health_.HandleRepeats(id, state_.flows.At(*slot), report.path_id);
      }
      needs_turn |= weights_.HandleMeasurement(*slot, report);
      continue;
    }
    const Flow& flow = state_.flows.At(*slot);
    if (!IsTaken(*slot)) {
      ignored_.Add();
      continue;
    }
    // What only a program says concerns nobody else.
    if (report.basis != wire::PathBasis::kClaimed) {
      if (report.answered) {
        link_health_.HandleLostAnswers(id, flow, report.path_id);
      } else {
        link_health_.HandlePathFailure(id, flow, report.path_id);
      }
    }
    state_.history.RecordOf(
        host, loop_.Now(), is_local_reroute ? "flow_locally_rerouted" : "flow_path_dead",
        fmt::format("flow={} port={}{}", state_.FlowName(flow), report.source_port,
                    report.answered ? " lost=acknowledgements" : ""));
    if (!is_local_reroute) continue;
    placement_.local_reroutes().Handle(*slot, report, loop_.Now());
    needs_turn = true;
  }
  return needs_turn;
}

}  // namespace espalier::controller
