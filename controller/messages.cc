// What the controller does on each message of an agent.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>
#include <variant>

#include "common/base/log.h"
#include "controller/controller.h"

namespace espalier::controller {
namespace {

// Agents whose host is not in the topology (which may be behind): no name is ever forgotten.
constexpr std::size_t kMostStrangers = 1'024;
// Those that are no agents of ours, as a source of events.
constexpr std::string_view kStrangers = "strangers";
// Of each path of a flow, a host may say once in this time that it does not carry: an agent looks
// again after twice as long at the earliest (PathGuardOptions::redraw_interval).
constexpr Duration kVerdictInterval = std::chrono::milliseconds(100);

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

std::uint64_t Microseconds(Duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

// Of the fastest path of a flow alone; a flow that is split counts all that it may take.
std::int64_t PathRate(State& state, const Flow& flow) {
  if (flow.ways.empty()) return 0;
  std::int64_t fastest = 0;
  for (const fabric::Path& path : state.PathsOf(flow)) {
    std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
    for (const fabric::DirectedLink hop : path.hops) {
      slowest = std::min(slowest, state.topology.link(hop.link).rate.value);
    }
    if (!path.hops.empty()) fastest = std::max(fastest, slowest);
  }
  return fastest * static_cast<std::int64_t>(flow.ways.size());
}

// Where a flow's bytes cross its NICs, and how fast they could go between.
JobRounds::Ends EndsOf(State& state, const Flow& flow) {
  // Both are known where it was placed, or is local.
  const bool is_known = flow.status != FlowStatus::kUnroutable || !flow.ways.empty();
  const auto attachment_of = [&](const IpAddress& address, fabric::NodeId known) {
    const auto nic = is_known ? std::optional(known) : state.topology.FindNic(address);
    return nic ? state.paths.FindAttachment(*nic) : std::nullopt;
  };
  JobRounds::Ends ends;
  if (const auto at = attachment_of(flow.source_address, flow.key.source)) {
    ends.source = at->uplink;
  }
  if (const auto at = attachment_of(flow.destination_address, flow.key.destination)) {
    ends.destination = {at->uplink.link, !at->uplink.forward};
  }
  // The source is another's, else it would be placed: no host makes pairs of others' NICs.
  if (ends.source && ends.destination && !is_known) return {};
  ends.path_bps = PathRate(state, flow);
  return ends;
}

// The ports of a flow's paths that an earlier controller chose, or its agent, in order.
std::vector<std::uint16_t> SteeredPorts(const wire::OpenedFlow& opened) {
  if (!opened.path_ports.empty()) return opened.path_ports;
  if (opened.steered) return {opened.source_port};
  return {};
}

}  // namespace

void Controller::HandleMessage(PeerId peer, std::string_view bytes) {
  messages_.Add();
  const TimePoint received = loop_.Now();
  const Result<const wire::Message*> decoded = decoder_.Decode(bytes);
  decode_seconds_.ObserveSeconds(SecondsSince(received));
  if (!decoded) return HandleBadMessage(peer, bytes.size(), decoded.error());
  const wire::Message& message = **decoded;
  if (const auto* hello = std::get_if<wire::Hello>(&message.body)) {
    HandleHello(peer, message.sender_instance, *hello);
    return;
  }
  const auto id = state_.agents.FindByPeer(peer);
  if (!id || state_.agents.At(*id).instance != message.sender_instance) {
    // It takes us for a controller that knows it: after a restart, or after its time was up.
    bad_messages_.Add();
    Refuse(peer, "", "say Hello first");
    return;
  }
  if (!HasAllowance(*id, wire::CostOf(message.body))) return SendAway(*id);
  state_.agents.At(*id).last_heard = loop_.Now();
  std::visit(Overloaded{
                 [&](const wire::FlowReport& report) { HandleFlowReport(*id, report); },
                 [&](const wire::Ack& ack) {
                   publisher_.HandleAck(*id, ack, loop_.Now());
                   TellWhenHeard();
                   if (state_.agents.At(*id).needs_full) RequestTurn();
                 },
                 [&](const wire::ProbeReport& report) { HandleProbeReport(*id, report); },
                 [&](const wire::PathHealth& health) { HandleHealth(*id, health); },
                 [&](const wire::LinkEvent& event) { HandleLinkEvent(*id, event); },
                 [&](const wire::Heartbeat& heartbeat) { HandleHeartbeat(*id, heartbeat); },
                 [&](const wire::CollectiveReport& report) {
                   if (!jobs_.HandleReport(*id, report)) bad_messages_.Add();
                 },
                 [&](const auto&) { bad_messages_.Add(); },  // only a controller says these
             },
             message.body);
}

void Controller::HandleBadMessage(PeerId peer, std::size_t bytes, const Error& error) {
  bad_messages_.Add();
  const auto id = state_.agents.FindByPeer(peer);
  state_.history.RecordOf(
      id ? std::string_view(state_.agents.At(*id).name) : kStrangers, loop_.Now(), "bad_message",
      fmt::format("peer={} bytes={} error=\"{}\"", peer.value(), bytes, error.message));
  if (id && !HasAllowance(*id, wire::kCostOfBadMessage)) SendAway(*id);
}

bool Controller::HasAllowance(AgentId id, std::int64_t entries) {
  std::optional<TokenBucket>& allowance = state_.agents.At(id).allowance;
  const double limit = options_.agent_limits.entries_per_second;
  if (!allowance) allowance.emplace(limit, limit, loop_.Now());
  return allowance->Take(static_cast<double>(entries), loop_.Now());
}

void Controller::SendAway(AgentId id) {
  const Agent& agent = state_.agents.At(id);
  agents_over_limit_.Add();
  HandleRefusal(agent.name, "it sends more entries than max_entries_per_second");
  bus_.Disconnect(*agent.peer);
  state_.agents.Disconnect(id);
}

std::string_view Controller::SourceOf(const std::string& name) const {
  return hosts_.contains(name) || state_.agents.FindByName(name) ? std::string_view(name)
                                                                 : kStrangers;
}

void Controller::Refuse(PeerId peer, const std::string& name, const std::string& reason) {
  wire::Welcome welcome;
  welcome.accepted = false;
  welcome.reason = reason;
  welcome.epoch = state_.epoch;
  SendTo(peer, std::move(welcome));
  if (name.empty()) return;
  state_.history.RecordOf(SourceOf(name), loop_.Now(), "agent_refused",
                          fmt::format("agent={} reason=\"{}\"", name, reason));
}

void Controller::HandleRefusal(const std::string& who, const std::string& reason) {
  constexpr std::size_t kMostUntold = 16;
  peers_refused_.Add();
  const bool is_full = refusals_.size() >= kMostUntold && !refusals_.contains({who, reason});
  ++refusals_[is_full ? std::pair<std::string, std::string>{"others", reason}
                      : std::pair{who, reason}];
}

void Controller::RecordRefusals() {
  constexpr Duration kInterval = std::chrono::seconds(1);
  if (refusals_.empty() || loop_.Now() - refusals_told_ < kInterval) return;
  refusals_told_ = loop_.Now();
  for (const auto& [refusal, count] : std::exchange(refusals_, {})) {
    state_.history.RecordOf(
        SourceOf(refusal.first), loop_.Now(), "peer_refused",
        fmt::format("who={} reason=\"{}\" count={}",
                    refusal.first.empty() ? "unknown" : refusal.first, refusal.second, count));
  }
}

// The first agent that has seen a later controller than the store knows of is believed to the
// letter. A second one, who has seen a still later one, may be a liar on the way up: all that can
// be believed is passed at once, so that there are never more than two raises, with their full
// pushes to all agents, in the life of a controller.
std::uint64_t Controller::EpochToRaiseTo(std::uint64_t claimed) {
  return std::exchange(has_believed_epoch_, true) ? highest_believable_epoch_ : claimed;
}

void Controller::HandleHello(PeerId peer, std::uint64_t instance, const wire::Hello& hello) {
  if (hello.protocol_major != wire::kProtocolMajor) {
    Refuse(peer, hello.name,
           fmt::format("protocol {} is not spoken here, {} is (upgrade the older side)",
                       hello.protocol_major, wire::kProtocolMajor));
    return;
  }
  if (const auto proven = bus_.AuthenticatedName(peer); proven && *proven != hello.name) {
    Refuse(peer, "", fmt::format("this key is that of {}, not of {}", *proven, hello.name));
    return HandleRefusal(*proven, fmt::format("it calls itself {}", hello.name));
  }
  const bool is_new_stranger =
      !hosts_.contains(hello.name) && !state_.agents.FindByName(hello.name);
  if (is_new_stranger && strangers_ >= kMostStrangers) {
    return Refuse(peer, "", "no host of the topology has this name, nor is there room for more");
  }
  strangers_ += is_new_stranger ? 1 : 0;
  const AgentId id = state_.agents.Intern(hello.name);
  Agent& agent = state_.agents.At(id);
  const TimePoint now = loop_.Now();
  if (!HasAllowance(id, wire::CostOf(hello))) {
    agents_over_limit_.Add();
    return Refuse(peer, hello.name, "it sends more entries than max_entries_per_second");
  }
  if (agent.peer && agent.instance != instance &&
      now - agent.last_heard <= options_.heartbeat_interval * options_.missed_heartbeats) {
    Refuse(peer, hello.name, "another agent of this name is connected (names must be unique)");
    return;
  }
  if (hello.highest_epoch > std::max(highest_believable_epoch_, state_.epoch)) {
    return Refuse(peer, hello.name, "an epoch so high that no controller can have given it");
  }
  if (hello.highest_epoch >= state_.epoch && agent.instance != instance) {
    return RaiseEpoch(EpochToRaiseTo(hello.highest_epoch), [this, peer, instance,
                                                            hello](Result<void> raised) {
      if (raised) return HandleHello(peer, instance, hello);
      Refuse(peer, hello.name, "the controller cannot save its epoch: " + raised.error().message);
    });
  }
  if (agent.instance != instance) {
    for (const FlowSlot slot : state_.flows.OfAgent(id)) CloseFlow(slot);
  }
  // A later connection of the same agent: nothing is to come by the earlier any more.
  if (agent.peer && *agent.peer != peer) bus_.Disconnect(*agent.peer);
  state_.agents.Connect(id, peer);
  agent.instance = instance;
  agent.nics = hello.nics;
  agent.features = hello.features;
  agent.protocol_minor = hello.protocol_minor;
  agent.last_heard = now;
  agent.reported = false;
  agent.report_sequence = 0;
  state_.agents.QueueFullPush(id);
  agent.hold_until = now + options_.adoption_timeout;
  wire::Welcome welcome;
  welcome.accepted = true;
  welcome.epoch = state_.epoch;
  welcome.heartbeat_interval_us = Microseconds(options_.heartbeat_interval);
  welcome.report_interval_us = ReportIntervalUs();
  const wire::AgentLimits& limits = options_.agent_limits;
  welcome.max_messages_per_second = static_cast<std::uint64_t>(limits.messages_per_second);
  welcome.max_bytes_per_second = static_cast<std::uint64_t>(limits.bytes_per_second);
  welcome.max_entries_per_second = static_cast<std::uint64_t>(limits.entries_per_second);
  SendTo(peer, std::move(welcome));
  state_.history.RecordOf(hello.name, now, "agent_up",
                          fmt::format("agent={} nics={}", hello.name, hello.nics.size()));
}

void Controller::HandleHeartbeat(AgentId id, const wire::Heartbeat& heartbeat) {
  if (heartbeat.sequence > state_.agents.At(id).report_sequence) StartOver(id);
}

// A report was lost on the way, and with it flows that began or ended. A new connection begins
// with a full one.
void Controller::StartOver(AgentId id) {
  const Agent& agent = state_.agents.At(id);
  state_.history.RecordOf(agent.name, loop_.Now(), "report_lost",
                          fmt::format("agent={}", agent.name));
  bus_.Disconnect(*agent.peer);
  state_.agents.Disconnect(id);
}

void Controller::HandleFlowReport(AgentId id, const wire::FlowReport& report) {
  std::uint64_t& last = state_.agents.At(id).report_sequence;
  if (!report.full && report.sequence > last + 1) return StartOver(id);
  last = report.full ? report.sequence : std::max(last, report.sequence);
  if (report.full) CloseMissingFlows(id, report);
  const auto close_ended = [&] {
    for (const wire::LocalFlowId local : report.ended) {
      if (const auto slot = state_.flows.Find(id, local)) CloseFlow(*slot);
    }
  };
  close_ended();  // first: what follows may be the next of the same pair
  const std::vector<FlowSlot> opened = OpenFlows(id, report);
  const std::span<const FlowSlot> due = TakeProgress(id, report.progress);
  Agent& agent = state_.agents.At(id);
  // What is open when an agent connects has not just started.
  if (agent.reported) foresight_.HandleStarts(opened, loop_.Now());
  foresight_.HandleProgress(due, loop_.Now());
  if (link_monitor_.HasAccusations()) TakeWitnesses(id, report);
  close_ended();  // of a message that opens what it ends
  if (report.full && !agent.reported) {
    agent.reported = true;
    RequestTurn();
  }
  if (!report.opened.empty() || !report.ended.empty()) RequestTurn();
}

std::vector<FlowSlot> Controller::OpenFlows(AgentId id, const wire::FlowReport& report) {
  std::vector<FlowSlot> slots;
  const Agent& agent = state_.agents.At(id);
  std::size_t refused = 0;
  for (const wire::OpenedFlow& opened : report.opened) {
    if (state_.flows.Find(id, opened.id)) continue;  // a full report repeats what is known
    if (state_.flows.CountOfAgent(id) >= options_.max_flows_per_agent) {
      ++refused;
      continue;
    }
    Flow flow;
    flow.agent = id;
    flow.local = opened.id;
    flow.job = state_.flows.JobIndex(report.jobs[opened.job], id);
    flow.source_address = report.addresses[opened.source];
    flow.destination_address = report.addresses[opened.destination];
    flow.own_port = opened.source_port;
    flow.local_qpn = opened.local_qpn;
    flow.remote_qpn = opened.remote_qpn;
    flow.protocol = opened.protocol;
    flow.key.destination_port = opened.destination_port;
    flow.max_paths = opened.max_paths;
    flow.movable = opened.movable;
    flow.reported = loop_.Now();
    flow.started = flow.reported - std::chrono::microseconds(opened.age_us);
    slots.push_back(state_.flows.Open(std::move(flow)));
    placement_.Admit(slots.back(), SteeredPorts(opened));
  }
  if (refused > 0) {
    state_.history.RecordOf(agent.name, loop_.Now(), "flows_refused",
                            fmt::format("agent={} flows={} limit={}", agent.name, refused,
                                        options_.max_flows_per_agent));
  }
  return slots;
}

std::span<const FlowSlot> Controller::TakeProgress(AgentId id,
                                                   std::span<const wire::FlowProgress> progress) {
  const TimePoint now = loop_.Now();
  const FlowTable::Taken taken = state_.flows.TakeProgress(id, progress, now);
  for (const MessageChange& change : taken.changes) {
    const Flow& flow = state_.flows.At(change.slot);
    if (change.is_busy && !change.was_busy) state_.rounds.Begin(flow.job, now);
    if (change.new_bytes > 0) {
      state_.rounds.AddBytes(flow.job, EndsOf(state_, flow), change.new_bytes);
    }
    if (change.was_busy && !change.is_busy) state_.rounds.End(flow.job, now);
  }
  return taken.due;
}

// Edges of forests are not the agents' to end.
void Controller::CloseFlow(FlowSlot slot) {
  if (state_.flows.At(slot).tree_load != 0) return;
  foresight_.HandleEnd(slot, loop_.Now());
  if (state_.flows.ActivityOf(slot).IsBusy()) {
    state_.rounds.End(state_.flows.At(slot).job, loop_.Now());
  }
  placement_.Release(slot);
  state_.flows.Close(slot);
  for (const std::uint32_t job : state_.flows.TakeForgottenJobs()) {
    state_.rounds.Forget(job);
    foresight_.ForgetJob(job);
  }
}

void Controller::CloseMissingFlows(AgentId id, const wire::FlowReport& report) {
  std::unordered_set<wire::LocalFlowId> present;
  for (const wire::OpenedFlow& opened : report.opened) present.insert(opened.id);
  for (const FlowSlot slot : state_.flows.OfAgent(id)) {
    if (!present.contains(state_.flows.At(slot).local)) CloseFlow(slot);
  }
}

bool Controller::TakesVerdict(Flow& flow) const {
  const TimePoint now = loop_.Now();
  if (flow.verdicts == 0 || now - flow.verdicts_since >= kVerdictInterval) {
    flow.verdicts_since = now;
    flow.verdicts = 0;
  }
  return flow.verdicts++ < std::max<std::size_t>(1, flow.ways.size());
}

void Controller::HandleHealth(AgentId id, const wire::PathHealth& health) {
  const std::string& host = state_.agents.At(id).name;
  bool has_accused = false;
  for (const wire::FlowHealth& report : health.flows) {
    const auto slot = state_.flows.Find(id, report.flow);
    const bool is_dead =
        report.verdict == wire::PathVerdict::kDead || report.verdict == wire::PathVerdict::kRedrawn;
    if (!slot || !is_dead) continue;
    Flow& flow = state_.flows.At(*slot);
    if (!TakesVerdict(flow)) {
      verdicts_ignored_.Add();
      continue;
    }
    TakeAccusation(id, flow, report.path_id);
    has_accused = true;
    const bool is_redrawn = report.verdict == wire::PathVerdict::kRedrawn;
    state_.history.RecordOf(
        host, loop_.Now(), is_redrawn ? "flow_redrawn" : "flow_path_dead",
        fmt::format("flow={} port={}", state_.FlowName(flow), report.source_port));
    if (!is_redrawn) continue;
    placement_.HandleRedraw(*slot, report.path_id, report.source_port, loop_.Now());
    RequestTurn();
  }
  if (has_accused) UpdateLinkMonitor();
}

void Controller::HandleProbeReport(AgentId id, const wire::ProbeReport& report) {
  const auto is_own = [&](fabric::NodeId nic) { return ProbeAgent(nic) == id; };
  if (!report.error.empty()) {
    state_.history.RecordOf(state_.agents.At(id).name, loop_.Now(), "probe_failed",
                            fmt::format("agent={} order={} error=\"{}\"", state_.agents.At(id).name,
                                        report.order, report.error));
  }
  if (SuspectProbes::IsAnswer(report)) return TakeSuspectAnswer(id, report);
  if (RevivalProbes::IsAnswer(report)) return TakeRevival(id, report);
  TakeFindings(learner_.HandleReport(report, is_own));
}

void Controller::HandleLinkEvent(AgentId id, const wire::LinkEvent& event) {
  // An agent may speak of its own NICs only.
  const auto nic = state_.topology.FindNic(event.address);
  const auto attachment =
      nic && ProbeAgent(*nic) == id ? state_.paths.FindAttachment(*nic) : std::nullopt;
  if (!attachment) {
    bad_messages_.Add();
    return;
  }
  const fabric::LinkId link = attachment->uplink.link;
  const bool changed =
      event.up ? state_.reported_down.erase(link) > 0 : state_.reported_down.insert(link).second;
  if (!changed) return;
  state_.history.RecordOf(
      state_.agents.At(id).name, loop_.Now(), event.up ? "nic_up" : "nic_down",
      fmt::format("agent={} link={}", state_.agents.At(id).name, state_.topology.link(link).id));
  ReactToReports();
}

}  // namespace espalier::controller
