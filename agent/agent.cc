#include "agent/agent.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/base/log.h"

namespace espalier::agent {
namespace {

constexpr int kSilentIntervals = 3;
constexpr Duration kMinHeartbeat = std::chrono::milliseconds(1);
constexpr Duration kMaxHeartbeat = std::chrono::minutes(1);

Duration HeartbeatInterval(std::uint64_t microseconds) {
  const auto limit = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(kMaxHeartbeat).count());
  return std::max<Duration>(kMinHeartbeat,
                            std::chrono::microseconds(std::min(microseconds, limit)));
}

}  // namespace

std::string_view AgentStateName(AgentState state) {
  switch (state) {
    case AgentState::kConnecting:
      return "connecting";
    case AgentState::kSynced:
      return "synced";
    case AgentState::kOrphan:
      return "orphan";
  }
  return "";
}

Agent::Agent(AgentOptions options, EventLoop& loop, Bus& bus, FlowSource& source,
             FlowActuator& actuator, ProbeSocket& probes, Metrics& metrics)
    : options_(std::move(options)),
      loop_(loop),
      bus_(bus),
      source_(source),
      ports_(actuator),
      meter_(options_.meter),
      reporter_(options_.reporter),
      prober_(options_.prober, loop, probes, metrics),
      guard_(options_.guard, loop, prober_, ports_, metrics, options_.instance,
             [this](const wire::PathHealth& health) {
               if (state_ == AgentState::kSynced) Send(health);
             }),
      nics_(options_.nics),
      reports_sent_(
          metrics.MakeCounter("espalier_agent_flow_reports_sent_total", "Flow reports sent")),
      pushes_applied_(
          metrics.MakeCounter("espalier_agent_pushes_applied_total",
                              "Path pushes carried out (wholly or but for some flows)")),
      stale_pushes_(metrics.MakeCounter("espalier_agent_stale_pushes_total",
                                        "Path pushes of a controller that was replaced")),
      incomplete_pushes_(metrics.MakeCounter("espalier_agent_incomplete_pushes_total",
                                             "Path pushes whose predecessor never came")),
      bad_messages_(metrics.MakeCounter("espalier_agent_bad_messages_total",
                                        "Messages that could not be read")),
      report_latency_(
          metrics.MakeLatency("espalier_agent_announce_to_report_seconds",
                              "From the opening of an elephant until the report of it was sent")),
      apply_seconds_(metrics.MakeLatency("espalier_agent_push_apply_seconds",
                                         "From a push's arrival until it was applied")),
      flows_tracked_(
          metrics.MakeGauge("espalier_agent_flows_tracked", "Elephant flows that are open")),
      state_gauge_(metrics.MakeGauge("espalier_agent_state",
                                     "0 connecting, 1 synced, 2 orphan (controller silent)")) {}

Agent::~Agent() { source_.OnChange({}); }

void Agent::Start() {
  bus_.SetHandlers({.on_message = [this](PeerId, std::string_view bytes) { HandleBytes(bytes); },
                    .on_peer_gone = [this](PeerId) { LoseController(); }});
  source_.OnChange([this] {
    // One look for all flows that open or end in one turn of the loop.
    if (!change_timer_) change_timer_ = loop_.After(Duration::zero(), [this] { Look(); });
  });
  hello_wait_ = options_.min_hello_wait;
  SayHello();
  Look();
}

void Agent::SetState(AgentState state) {
  if (state == state_) return;
  Log(LogLevel::kInfo, "event=agent_state agent={} from={} to={}", options_.name,
      AgentStateName(state_), AgentStateName(state));
  state_ = state;
  state_gauge_.Set(static_cast<double>(state));
}

void Agent::Send(wire::Body body) {
  // What is lost here is told anew: by the next heartbeat, or by the full report after a Welcome.
  (void)bus_.Send(kControllerPeer,
                  wire::Encode({.sender_instance = options_.instance, .body = std::move(body)}));
}

void Agent::SayHello() {
  Send(wire::Hello{.name = options_.name,
                   .features = options_.features,
                   .highest_epoch = ports_.highest_epoch(),
                   .applied_generation = ports_.applied_generation(),
                   .nics = nics_});
  hello_timer_ = loop_.After(hello_wait_, [this] { SayHello(); });
  hello_wait_ = std::min(2 * hello_wait_, options_.max_hello_wait);
}

void Agent::HandleBytes(std::string_view bytes) {
  const Result<const wire::Message*> decoded = decoder_.Decode(bytes);
  if (!decoded) {
    bad_messages_.Add();
    Log(LogLevel::kWarning, "event=bad_message agent={} cause=\"{}\"", options_.name,
        decoded.error().message);
    return;
  }
  const wire::Message& message = **decoded;
  if (const auto* welcome = std::get_if<wire::Welcome>(&message.body)) {
    controller_instance_ = message.sender_instance;
    return Handle(*welcome);
  }
  if (state_ != AgentState::kSynced || message.sender_instance != controller_instance_) {
    return HandleStranger(message);
  }
  last_heard_ = loop_.Now();
  std::visit(
      [this](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, wire::Heartbeat> ||
                      std::is_same_v<Body, wire::PathPush> ||
                      std::is_same_v<Body, wire::ProbeOrder>) {
          Handle(body);
        } else if constexpr (std::is_same_v<Body, wire::RankPlan>) {
          plans_.HandlePlan(body);
        } else {
          bad_messages_.Add();  // not one that a controller sends to this agent
        }
      },
      message.body);
}

// A controller that has not welcomed us: a restarted one that does not know us, or one that was
// replaced. Whoever it is, a stale push is answered so that it learns of its successor.
void Agent::HandleStranger(const wire::Message& message) {
  const auto* push = std::get_if<wire::PathPush>(&message.body);
  if (push != nullptr && push->epoch < ports_.highest_epoch()) return Handle(*push);
  if (state_ == AgentState::kSynced) return LoseController();
  // It is there again: no need to sit out a long wait.
  if (hello_wait_ <= 2 * options_.min_hello_wait) return;
  hello_wait_ = options_.min_hello_wait;
  SayHello();
}

void Agent::Handle(const wire::Welcome& welcome) {
  const bool other_version = welcome.accepted && welcome.protocol_major != wire::kProtocolMajor;
  if (!welcome.accepted || other_version) {
    Log(LogLevel::kWarning, "event=refused agent={} cause=\"{}\" controller_protocol={}.{}",
        options_.name, other_version ? "another protocol version" : welcome.reason,
        welcome.protocol_major, welcome.protocol_minor);
    if (state_ == AgentState::kSynced) LoseController();
    hello_timer_ = loop_.After(options_.refused_hello_wait, [this] { SayHello(); });
    return;
  }
  hello_timer_.reset();
  lease_timer_.reset();
  hello_wait_ = options_.min_hello_wait;
  heartbeat_interval_ = HeartbeatInterval(welcome.heartbeat_interval_us);
  last_heard_ = loop_.Now();
  report_sequence_ = 0;
  needs_full_report_ = true;
  prober_.ForgetController();
  SetState(AgentState::kSynced);
  heartbeat_timer_ = loop_.After(heartbeat_interval_, [this] { Beat(); });
  Look();
}

void Agent::Handle(const wire::Heartbeat& heartbeat) {
  // Messages come in order, so a generation that is announced but not here was lost on the way.
  const bool lost_a_push = heartbeat.epoch == ports_.highest_epoch() &&
                           heartbeat.generation > ports_.applied_generation();
  if (!lost_a_push) return;
  incomplete_pushes_.Add();
  Send(wire::Ack{.epoch = heartbeat.epoch,
                 .generation = heartbeat.generation,
                 .status = wire::AckStatus::kNeedFull,
                 .detail = "the push of this generation was lost",
                 .failed_flows = {}});
}

void Agent::Handle(const wire::PathPush& push) {
  const TimePoint received = loop_.Now();
  const std::uint64_t epoch = ports_.highest_epoch();
  const std::uint64_t generation = ports_.applied_generation();
  if (push.epoch >= epoch && !plans_.HasCome(push)) {
    incomplete_pushes_.Add();
    return Send(wire::Ack{.epoch = push.epoch,
                          .generation = push.generation,
                          .status = wire::AckStatus::kNeedFull,
                          .detail = "plans of this generation were lost",
                          .failed_flows = {}});
  }
  wire::Ack ack = ports_.HandlePush(push);
  const bool is_applied =
      ports_.highest_epoch() == push.epoch && ports_.applied_generation() == push.generation;
  if (is_applied && (push.full || push.epoch > epoch || push.generation > generation)) {
    plans_.Apply(push);
  }
  apply_seconds_.ObserveSeconds(std::chrono::duration<double>(loop_.Now() - received).count());
  switch (ack.status) {
    case wire::AckStatus::kApplied:
    case wire::AckStatus::kFailed:
      pushes_applied_.Add();
      break;
    case wire::AckStatus::kStaleEpoch:
      stale_pushes_.Add();
      break;
    case wire::AckStatus::kNeedFull:
      incomplete_pushes_.Add();
      break;
  }
  Send(std::move(ack));
}

void Agent::Handle(const wire::ProbeOrder& order) {
  prober_.Start(order, [this](const wire::ProbeReport& report) { Send(report); });
}

void Agent::SendReport(const wire::CollectiveReport& report) {
  if (state_ == AgentState::kSynced) Send(report);
}

void Agent::Beat() {
  if (loop_.Now() - last_heard_ >= kSilentIntervals * heartbeat_interval_) {
    Log(LogLevel::kWarning, "event=controller_silent agent={}", options_.name);
    return LoseController();
  }
  Send(wire::Heartbeat{.sequence = report_sequence_,
                       .epoch = ports_.highest_epoch(),
                       .generation = ports_.applied_generation()});
  heartbeat_timer_ = loop_.After(heartbeat_interval_, [this] { Beat(); });
}

void Agent::LoseController() {
  if (state_ != AgentState::kSynced) return;
  SetState(AgentState::kOrphan);
  heartbeat_timer_.reset();
  prober_.ForgetController();
  lease_timer_ =
      loop_.After(std::max(Duration::zero(), options_.lease - (loop_.Now() - last_heard_)),
                  [this] { ExpireLease(); });
  hello_wait_ = options_.min_hello_wait;
  SayHello();
}

void Agent::ExpireLease() {
  const std::size_t cleared = ports_.Expire();
  Log(LogLevel::kWarning, "event=lease_expired agent={} flows_to_ecmp={}", options_.name, cleared);
}

void Agent::HandleNic(const wire::Nic& nic) {
  const auto known = std::find_if(nics_.begin(), nics_.end(), [&nic](const wire::Nic& other) {
    return other.address == nic.address;
  });
  if (known == nics_.end()) {
    nics_.push_back(nic);
  } else {
    *known = nic;
  }
  Log(LogLevel::kInfo, "event=nic_link agent={} device={} address={} up={}", options_.name,
      nic.device, nic.address.ToString(), nic.link_up);
  // Where there is no controller, the next Hello says it.
  if (state_ != AgentState::kSynced) return;
  Send(wire::LinkEvent{.link = {}, .address = nic.address, .up = nic.link_up, .source = "nic"});
}

void Agent::Look() {
  change_timer_.reset();
  look_timer_.reset();
  const std::span<const FlowSample> flows = source_.Flows();
  ports_.HandleFlows(flows);
  const std::span<const FlowMeasure> elephants = meter_.Measure(loop_.Now(), flows);
  flows_tracked_.Set(static_cast<double>(elephants.size()));
  if (state_ == AgentState::kSynced) Report(elephants);
  guard_.HandleMeasures(elephants);
  const bool owes_report = state_ == AgentState::kSynced && needs_full_report_;
  if (!flows.empty() || owes_report) {
    look_timer_ = loop_.After(options_.reporter.progress_interval, [this] { Look(); });
  }
}

void Agent::Report(std::span<const FlowMeasure> flows) {
  const auto port_of = [this](const FlowSample& sample) { return PortOf(sample); };
  std::vector<wire::FlowReport> reports;
  if (needs_full_report_) {
    reports.push_back(reporter_.ReportAll(loop_.Now(), flows, port_of));
    needs_full_report_ = false;
  } else {
    reports = reporter_.ReportChanges(loop_.Now(), flows, port_of);
    for (const wire::FlowReport& report : reports) {
      for (const wire::OpenedFlow& flow : report.opened) {
        report_latency_.ObserveSeconds(1e-6 * static_cast<double>(flow.age_us));
      }
    }
  }
  for (wire::FlowReport& report : reports) {
    report.sequence = report_sequence_ + 1;
    if (!bus_.Send(kControllerPeer, wire::Encode({.sender_instance = options_.instance,
                                                  .body = std::move(report)}))) {
      needs_full_report_ = true;  // differences to what was lost would mislead
      return;
    }
    ++report_sequence_;
    reports_sent_.Add();
  }
}

PortInUse Agent::PortOf(const FlowSample& sample) const {
  // A program takes its port at the next message; what it will use is what counts.
  const wire::PathSet* const set = ports_.Find(sample.id);
  const std::uint16_t port = set == nullptr ? sample.source_port : set->paths.front().source_port;
  PortInUse in_use{.port = port, .steered = ports_.IsSteered(sample.id, port), .path_ports = {}};
  if (set == nullptr || (set->paths.size() < 2 && in_use.steered)) return in_use;
  for (const wire::FlowPath& path : set->paths) in_use.path_ports.push_back(path.source_port);
  return in_use;
}

}  // namespace espalier::agent
