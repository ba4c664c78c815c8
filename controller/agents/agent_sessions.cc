#include "controller/agents/agent_sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <variant>

#include "proto/encode.h"

namespace espalier::controller {
namespace {

// How long, after a restart, the first push to an agent waits for probes to find the paths of the
// flows that an earlier controller steered (adoption).
constexpr Duration kAdoptionTimeout = std::chrono::seconds(2);

// Every start of a controller takes one epoch. A store that was restored from a backup is behind
// its agents by one epoch for each start since then. The limit keeps an agent that claims an
// arbitrary epoch from using up all epochs. The versions of job plans have room for epochs up to
// 2^39 (forests/tree_jobs.cc).
constexpr std::uint64_t kMaxEpochsAhead = 1 << 20;
constexpr std::uint64_t kHighestEpochClaimed = std::uint64_t{1} << 38U;
// Limit on agents of hosts outside the topology, which may be outdated; no name is ever forgotten.
// Agents of hosts outside the topology; more of them if it has no hosts, as before discovery.
constexpr std::size_t kMaxStrangers = 1'024;
constexpr std::size_t kMaxStrangersWithoutTopology = 16'384;
// The source of events about all unknown peers.
constexpr std::string_view kStrangers = "strangers";

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::uint64_t RandomInstance() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

std::unordered_set<std::string> HostsOf(const fabric::Topology& topology) {
  std::unordered_set<std::string> hosts;
  for (const fabric::Node& node : topology.nodes()) hosts.insert(fabric::HostOf(node));
  return hosts;
}

std::uint64_t Microseconds(Duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

}  // namespace

AgentSessions::AgentSessions(State& state, const ControllerOptions& options, EventLoop& loop,
                             Bus& bus, Store& store, Metrics& metrics)
    : state_(state),
      options_(options),
      loop_(loop),
      bus_(bus),
      store_(store),
      instance_(options.instance != 0 ? options.instance : RandomInstance()),
      hosts_(HostsOf(state.topology)),
      messages_(metrics.MakeCounter("espalier_controller_messages_total",
                                    "Messages received from agents")),
      bad_messages_(
          metrics.MakeCounter("espalier_controller_bad_messages_total",
                              "Messages from agents refused as malformed or out of place")),
      peers_refused_(metrics.MakeCounter("espalier_controller_peers_refused_total",
                                         "Connections of peers that were refused or ended")),
      agents_over_limit_(metrics.MakeCounter(
          "espalier_controller_agents_over_limit_total",
          "Times that an agent was disconnected or refused because it sent more than "
          "max_entries_per_second")),
      decode_seconds_(metrics.MakeLatency("espalier_controller_decode_seconds",
                                          "Time to decode one message from an agent")),
      agents_connected_(
          metrics.MakeGauge("espalier_controller_agents_connected", "Agents that are connected")) {}

void AgentSessions::Start(Handlers handlers) {
  handlers_ = std::move(handlers);
  highest_believable_epoch_ = std::min(state_.epoch + kMaxEpochsAhead, kHighestEpochClaimed);
  bus_.SetHandlers(
      {.on_message = [this](PeerId peer, std::string_view bytes) { HandleMessage(peer, bytes); },
       .on_peer_gone =
           [this](PeerId peer) {
             if (const auto id = state_.agents.FindByPeer(peer)) state_.agents.Disconnect(*id);
           }});
}

bool AgentSessions::Send(AgentId id, wire::Body body) {
  const Agent& agent = state_.agents.At(id);
  if (!agent.peer) return false;
  return bus_.Send(*agent.peer, wire::Encode({instance_, std::move(body)}));
}

void AgentSessions::SendTo(PeerId peer, wire::Body body) {
  bus_.Send(peer, wire::Encode({instance_, std::move(body)}));
}

void AgentSessions::ResetSession(AgentId id) {
  const Agent& agent = state_.agents.At(id);
  state_.history.RecordOf(agent.name, loop_.Now(), "report_lost",
                          fmt::format("agent={}", agent.name));
  bus_.Disconnect(*agent.peer);
  state_.agents.Disconnect(id);
}

std::optional<AgentId> AgentSessions::FindProber(fabric::NodeId nic) const {
  const auto id = state_.agents.FindByName(fabric::HostOf(state_.topology.node(nic)));
  if (!id || !state_.agents.At(*id).peer) return std::nullopt;
  return id;
}

std::vector<discovery::Endpoint> AgentSessions::ProbingNics() const {
  std::vector<discovery::Endpoint> nics;
  for (std::size_t i = 0; i < state_.agents.size(); ++i) {
    const Agent& agent = state_.agents.At(AgentId(static_cast<std::int32_t>(i)));
    if (!agent.peer || !agent.Has("probe")) continue;
    for (const wire::Nic& nic : agent.nics) {
      if (nic.link_up) nics.push_back({agent.name, nic.device, nic.address});
    }
  }
  return nics;
}

void AgentSessions::HandleMessage(PeerId peer, std::string_view bytes) {
  messages_.Add();
  const TimePoint received = loop_.Now();
  const Result<const wire::Message*> decoded = decoder_.Decode(bytes);
  decode_seconds_.ObserveSeconds(SecondsOf(loop_.Now() - received));
  if (!decoded) return HandleBadMessage(peer, bytes.size(), decoded.error());
  const wire::Message& message = **decoded;
  if (const auto* hello = std::get_if<wire::Hello>(&message.body)) {
    return HandleHello(peer, message.sender_instance, *hello);
  }
  const auto id = state_.agents.FindByPeer(peer);
  if (!id || state_.agents.At(*id).instance != message.sender_instance) {
    // The agent still believes it is registered: we restarted, or its session timed out.
    bad_messages_.Add();
    return Refuse(peer, "", "no session on this connection (send Hello first)");
  }
  if (!HasAllowance(*id, wire::CostOf(message.body))) return DisconnectAgent(*id);
  state_.agents.At(*id).last_heard = loop_.Now();
  HandleBody(*id, message.body);
}

void AgentSessions::HandleBody(AgentId id, const wire::Body& body) {
  const auto count_refused = [&](bool is_taken) {
    if (!is_taken) bad_messages_.Add();
  };
  std::visit(
      Overloaded{
          [&](const wire::FlowReport& report) {
            if (!handlers_.on_flow_report(id, report)) ResetSession(id);
          },
          [&](const wire::Ack& ack) { handlers_.on_ack(id, ack); },
          [&](const wire::ProbeReport& report) { handlers_.on_probe_report(id, report); },
          [&](const wire::TrainReport& report) { handlers_.on_train_report(id, report); },
          [&](const wire::PathHealth& health) { handlers_.on_path_health(id, health); },
          [&](const wire::LinkEvent& event) { count_refused(handlers_.on_link_event(id, event)); },
          [&](const wire::Heartbeat& heartbeat) { HandleHeartbeat(id, heartbeat); },
          [&](const wire::CollectiveReport& report) {
            count_refused(handlers_.on_collective_report(id, report));
          },
          [&](const auto&) { bad_messages_.Add(); },  // messages that only controllers send
      },
      body);
}

void AgentSessions::HandleBadMessage(PeerId peer, std::size_t bytes, const Error& error) {
  bad_messages_.Add();
  const auto id = state_.agents.FindByPeer(peer);
  state_.history.RecordOf(
      id ? std::string_view(state_.agents.At(*id).name) : kStrangers, loop_.Now(), "bad_message",
      fmt::format("peer={} bytes={} error=\"{}\"", peer.value(), bytes, error.message));
  if (id && !HasAllowance(*id, wire::kCostOfBadMessage)) DisconnectAgent(*id);
}

bool AgentSessions::HasAllowance(AgentId id, std::int64_t entries) {
  std::optional<TokenBucket>& allowance = state_.agents.At(id).allowance;
  const double limit = options_.agent_limits.entries_per_second;
  if (!allowance) allowance.emplace(limit, limit, loop_.Now());
  return allowance->Take(static_cast<double>(entries), loop_.Now());
}

void AgentSessions::ResetAllowances() {
  for (std::size_t i = 0; i < state_.agents.size(); ++i) {
    state_.agents.At(AgentId(static_cast<std::int32_t>(i))).allowance.reset();
  }
}

void AgentSessions::DisconnectAgent(AgentId id) {
  const Agent& agent = state_.agents.At(id);
  agents_over_limit_.Add();
  HandleRefusal(agent.name, "the agent sends more entries than max_entries_per_second");
  bus_.Disconnect(*agent.peer);
  state_.agents.Disconnect(id);
}

std::string_view AgentSessions::SourceOf(const std::string& name) const {
  return hosts_.contains(name) || state_.agents.FindByName(name) ? std::string_view(name)
                                                                 : kStrangers;
}

void AgentSessions::Refuse(PeerId peer, const std::string& name, const std::string& reason) {
  wire::Welcome welcome;
  welcome.accepted = false;
  welcome.reason = reason;
  welcome.epoch = state_.epoch;
  SendTo(peer, std::move(welcome));
  if (name.empty()) return;
  state_.history.RecordOf(SourceOf(name), loop_.Now(), "agent_refused",
                          fmt::format("agent={} reason=\"{}\"", name, reason));
}

void AgentSessions::HandleRefusal(const std::string& who, const std::string& reason) {
  constexpr std::size_t kMaxUnrecorded = 16;
  peers_refused_.Add();
  const bool is_full = refusals_.size() >= kMaxUnrecorded && !refusals_.contains({who, reason});
  ++refusals_[is_full ? std::pair<std::string, std::string>{"others", reason}
                      : std::pair{who, reason}];
}

void AgentSessions::RecordRefusals() {
  for (const auto& [refusal, count] : std::exchange(refusals_, {})) {
    state_.history.RecordOf(
        SourceOf(refusal.first), loop_.Now(), "peer_refused",
        fmt::format("who={} reason=\"{}\" count={}",
                    refusal.first.empty() ? "unknown" : refusal.first, refusal.second, count));
  }
}

// The epoch to raise to, if an agent claims one that is later than the store's. The first claim is
// believed as it is. A second agent with a still later epoch may be malicious, so the epoch rises
// to the highest believable one at once. A controller thus raises its epoch, with full pushes to
// all agents, at most twice.
std::uint64_t AgentSessions::EpochToRaiseTo(std::uint64_t claimed) {
  return std::exchange(has_believed_epoch_, true) ? highest_believable_epoch_ : claimed;
}

void AgentSessions::RaiseEpoch(std::uint64_t at_least, std::function<void(Result<void>)> done) {
  epoch_waiters_.push_back(std::move(done));
  if (epoch_waiters_.size() > 1) return;  // a waiter whose epoch is still higher asks again
  const std::uint64_t epoch = std::max(state_.epoch, at_least) + 1;
  StoreChange change;
  change.epoch = epoch;
  store_.Commit(std::move(change), [this, epoch](Result<Committed> committed) {
    if (committed) {
      state_.epoch = epoch;
      for (std::size_t i = 0; i < state_.agents.size(); ++i) {
        const AgentId id(static_cast<std::int32_t>(i));
        Agent& agent = state_.agents.At(id);
        agent.generation = agent.acked_generation = 0;
        state_.pushes.MarkAll(id);
      }
    }
    for (const auto& waiter : std::exchange(epoch_waiters_, {})) {
      waiter(committed ? Result<void>() : Result<void>(tl::unexpected(committed.error())));
    }
  });
}

void AgentSessions::HandleHello(PeerId peer, std::uint64_t instance, const wire::Hello& hello) {
  if (hello.protocol_major != wire::kProtocolMajor) {
    Refuse(peer, hello.name,
           fmt::format("protocol version {} is not supported, this controller uses {} (upgrade the "
                       "older side)",
                       hello.protocol_major, wire::kProtocolMajor));
    return;
  }
  if (const auto proven = bus_.AuthenticatedName(peer); proven && *proven != hello.name) {
    Refuse(peer, "", fmt::format("this key belongs to {}, not to {}", *proven, hello.name));
    return HandleRefusal(*proven, fmt::format("it claims the name {}", hello.name));
  }
  const bool is_new_stranger =
      !hosts_.contains(hello.name) && !state_.agents.FindByName(hello.name);
  if (is_new_stranger &&
      unknown_agents_ >= (hosts_.empty() ? kMaxStrangersWithoutTopology : kMaxStrangers)) {
    return Refuse(peer, "",
                  "no host of the topology has this name, and too many such agents are known");
  }
  unknown_agents_ += is_new_stranger ? 1 : 0;
  const AgentId id = state_.agents.Intern(hello.name);
  const Agent& agent = state_.agents.At(id);
  if (!HasAllowance(id, wire::CostOf(hello))) {
    agents_over_limit_.Add();
    return Refuse(peer, hello.name, "the agent sends more entries than max_entries_per_second");
  }
  if (const auto fault = CheckHello(instance, hello, agent)) {
    return Refuse(peer, hello.name, *fault);
  }
  if (hello.highest_epoch >= state_.epoch && agent.instance != instance) {
    return RaiseEpoch(EpochToRaiseTo(hello.highest_epoch), [this, peer, instance,
                                                            hello](Result<void> raised) {
      if (raised) return HandleHello(peer, instance, hello);
      Refuse(peer, hello.name, "the controller cannot save its epoch: " + raised.error().message);
    });
  }
  if (agent.instance != instance) handlers_.on_new_process(id);
  // A later connection of an agent replaces the earlier one.
  if (agent.peer && *agent.peer != peer) bus_.Disconnect(*agent.peer);
  Welcome(id, peer, instance, hello);
}

std::optional<std::string> AgentSessions::CheckHello(std::uint64_t instance,
                                                     const wire::Hello& hello,
                                                     const Agent& agent) const {
  const Duration patience = options_.heartbeat.interval * options_.heartbeat.missed;
  if (agent.peer && agent.instance != instance && loop_.Now() - agent.last_heard <= patience) {
    return "another agent with this name is connected (names must be unique)";
  }
  if (hello.highest_epoch > std::max(highest_believable_epoch_, state_.epoch)) {
    return "the agent claims an epoch that no controller can have reached";
  }
  return std::nullopt;
}

void AgentSessions::Welcome(AgentId id, PeerId peer, std::uint64_t instance,
                            const wire::Hello& hello) {
  const TimePoint now = loop_.Now();
  Agent& agent = state_.agents.At(id);
  state_.agents.Connect(id, peer);
  agent.instance = instance;
  agent.nics = hello.nics;
  agent.features = hello.features;
  agent.protocol_minor = hello.protocol_minor;
  agent.last_heard = now;
  agent.reported = false;
  agent.report_sequence = 0;
  agent.next_full_push = now;
  state_.pushes.MarkAll(id);
  agent.hold_until = now + kAdoptionTimeout;
  wire::Welcome welcome;
  welcome.accepted = true;
  welcome.epoch = state_.epoch;
  welcome.heartbeat_interval_us = Microseconds(options_.heartbeat.interval);
  welcome.report_interval_us = ReportIntervalUs();
  const wire::AgentLimits& limits = options_.agent_limits;
  welcome.max_messages_per_second = static_cast<std::uint64_t>(limits.messages_per_second);
  welcome.max_bytes_per_second = static_cast<std::uint64_t>(limits.bytes_per_second);
  welcome.max_entries_per_second = static_cast<std::uint64_t>(limits.entries_per_second);
  SendTo(peer, std::move(welcome));
  state_.history.RecordOf(hello.name, now, "agent_up",
                          fmt::format("agent={} nics={}", hello.name, hello.nics.size()));
}

void AgentSessions::HandleHeartbeat(AgentId id, const wire::Heartbeat& heartbeat) {
  if (heartbeat.sequence > state_.agents.At(id).report_sequence) ResetSession(id);
}

void AgentSessions::DropSilent() {
  const TimePoint now = loop_.Now();
  std::size_t connected = 0;
  for (std::size_t i = 0; i < state_.agents.size(); ++i) {
    const AgentId id(static_cast<std::int32_t>(i));
    const Agent& agent = state_.agents.At(id);
    const Duration patience = options_.heartbeat.interval * options_.heartbeat.missed;
    if (agent.peer && now - agent.last_heard > patience) {
      state_.history.RecordOf(agent.name, now, "agent_gone", fmt::format("agent={}", agent.name));
      bus_.Disconnect(*agent.peer);
      state_.agents.Disconnect(id);
    }
    connected += agent.peer ? 1 : 0;
  }
  connected_ = connected;
  agents_connected_.Set(static_cast<double>(connected));
}

void AgentSessions::SendHeartbeats() {
  const auto parts = static_cast<std::size_t>(
      std::max<std::int64_t>(1, options_.heartbeat.interval / kHeartbeatStep));
  const std::size_t part = heartbeat_ticks_++ % parts;
  if (part == 0) ++heartbeats_;
  for (std::size_t i = part; i < state_.agents.size(); i += parts) {
    const AgentId id(static_cast<std::int32_t>(i));
    const Agent& agent = state_.agents.At(id);
    if (!agent.peer) continue;
    Send(id, wire::Heartbeat{.sequence = heartbeats_,
                             .epoch = state_.epoch,
                             .generation = agent.generation,
                             .report_interval_us = ReportIntervalUs(),
                             .wanted = state_.connections.TakeWanted(agent.name)});
  }
}

std::uint64_t AgentSessions::ReportIntervalUs() const {
  constexpr std::uint64_t kUsual = 10'000;  // the default interval of agents
  constexpr std::uint64_t kSecond = 1'000'000;
  if (options_.max_reports_per_second == 0) return 0;
  const std::uint64_t interval = connected_ * kSecond / options_.max_reports_per_second;
  return interval <= kUsual ? 0 : interval;
}

}  // namespace espalier::controller
