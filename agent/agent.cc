#include "agent/agent.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>
#include <variant>

#include "common/base/enum_names.h"
#include "common/base/log.h"
#include "proto/encode.h"

namespace espalier::agent {
namespace {

constexpr int kSilentIntervals = 3;
constexpr Duration kMinHeartbeat = std::chrono::milliseconds(1);
constexpr Duration kMaxHeartbeat = std::chrono::minutes(1);
// Programs may open and end flows without a pause. Up to this rate, and for a few changes in a row,
// each change is looked at immediately; further changes share one look a millisecond.
constexpr double kMaxLooksPerSecond = 1'000;
constexpr double kMaxLooksInARow = 16;
constexpr Duration kLookWait = std::chrono::milliseconds(1);
// A look takes some 0.1 us for each flow, so looks take a few percent of one processor at most.
constexpr Duration kLookWaitOfFlow = std::chrono::microseconds(8);
// Maximum report interval: a controller that gets progress less often steers by outdated rates.
constexpr std::uint64_t kMaxReportUs = 1'000'000;
// Maximum number of verdicts that wait for room in the budget. Paths are judged repeatedly, so
// dropping further ones loses little.
constexpr std::size_t kMaxHeldVerdicts = 1'024;

Duration HeartbeatInterval(std::uint64_t microseconds) {
  const auto limit = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(kMaxHeartbeat).count());
  return std::max<Duration>(kMinHeartbeat,
                            std::chrono::microseconds(std::min(microseconds, limit)));
}

}  // namespace

std::string_view AgentStateName(AgentState state) {
  static constexpr EnumNames<AgentState> kAgentStateNames(
      {
          {AgentState::kConnecting, "connecting"},
          {AgentState::kSynced, "synced"},
          {AgentState::kOrphan, "orphan"},
      },
      "");
  return kAgentStateNames.NameOf(state);
}

Agent::Agent(AgentOptions options, EventLoop& loop, Bus& bus, FlowSource& source,
             FlowActuator& actuator, ProbeSocket& probes, TrainSocket& trains, Metrics& metrics)
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
               if (state_ == AgentState::kSynced) SendHealth(health);
             }),
      link_tester_(
          options_.link_tests, loop, trains, metrics,
          [this](const IpAddress& address) { return IsOwnAddress(address); },
          [this](wire::TrainReport report) { Send(std::move(report)); }),
      sampler_(options_.sampler, ports_,
               [this](const wire::PathHealth& health) {
                 if (state_ == AgentState::kSynced) Send(health);
               }),
      nics_(options_.nics),
      looks_(kMaxLooksPerSecond, kMaxLooksInARow, loop.Now()),
      budget_(loop.Now()),
      metrics_(metrics) {}

Agent::~Agent() { source_.OnChange({}); }

void Agent::Start() {
  bus_.SetHandlers({.on_message = [this](PeerId, std::string_view bytes) { HandleBytes(bytes); },
                    .on_peer_gone = [this](PeerId) { LoseController(); }});
  source_.OnChange([this] { ScheduleScan(); });
  hello_wait_ = options_.min_hello_wait;
  // This lease covers the ports that programs have kept from an earlier agent.
  timers_.lease = loop_.After(options_.lease, [this] { ExpireLease(); });
  SendHello();
  Look();
}

void Agent::SetState(AgentState state) {
  if (state == state_) return;
  Log(LogLevel::kInfo, "event=agent_state agent={} from={} to={}", options_.name,
      AgentStateName(state_), AgentStateName(state));
  state_ = state;
  metrics_.state.Set(static_cast<double>(state));
}

void Agent::Send(wire::Body body) {
  const MessageClass kind = ClassOf(body);
  if (!budget_.HasRoomFor(kind, loop_.Now())) {
    if (kind == MessageClass::kFindings) metrics_.findings_dropped.Add();
    if (kind == MessageClass::kAccounts) metrics_.collective_reports_dropped.Add();
    return;
  }
  // The next heartbeat, or the full report after a Welcome, repeats what is lost here.
  (void)Transmit(std::move(body));
}

bool Agent::Transmit(wire::Body body) {
  const std::int64_t entries = wire::CostOf(body);
  std::string bytes = wire::Encode({.sender_instance = options_.instance, .body = std::move(body)});
  budget_.Charge(bytes.size(), entries, loop_.Now());
  return bus_.Send(kControllerPeer, std::move(bytes));
}

void Agent::SendHealth(const wire::PathHealth& health) {
  if (held_health_.flows.empty() && budget_.HasRoomFor(MessageClass::kFindings, loop_.Now())) {
    Send(health);
    return;
  }
  for (const wire::FlowHealth& verdict : health.flows) {
    if (held_health_.flows.size() < kMaxHeldVerdicts) {
      held_health_.flows.push_back(verdict);
    } else {
      metrics_.findings_dropped.Add();
    }
  }
}

// All flows that open or end in one turn of the loop, or before the next look is allowed, share one
// look.
void Agent::ScheduleScan() {
  if (timers_.change) return;
  const bool at_once = looks_.Level(loop_.Now()) >= 1;
  timers_.change = loop_.After(at_once ? Duration::zero() : kLookWait, [this] {
    looks_.Take(1, loop_.Now());
    Look();
  });
}

std::vector<std::string> Agent::Features() const {
  std::vector<std::string> features = options_.features;
  if (options_.dynamic_features) {
    std::ranges::move(options_.dynamic_features(), std::back_inserter(features));
  }
  return features;
}

void Agent::SendHello() {
  controller_.sent_features = Features();
  Send(wire::Hello{.name = options_.name,
                   .features = controller_.sent_features,
                   .highest_epoch = ports_.highest_epoch(),
                   .applied_generation = ports_.applied_generation(),
                   .nics = nics_});
  timers_.hello = loop_.After(hello_wait_, [this] { SendHello(); });
  hello_wait_ = std::min(2 * hello_wait_, options_.max_hello_wait);
}

void Agent::HandleBytes(std::string_view bytes) {
  const Result<const wire::Message*> decoded = decoder_.Decode(bytes);
  if (!decoded) {
    metrics_.bad_messages.Add();
    Log(LogLevel::kWarning, "event=bad_message agent={} cause=\"{}\"", options_.name,
        decoded.error().message);
    return;
  }
  const wire::Message& message = **decoded;
  if (const auto* welcome = std::get_if<wire::Welcome>(&message.body)) {
    controller_.instance = message.sender_instance;
    return Handle(*welcome);
  }
  if (state_ != AgentState::kSynced || message.sender_instance != controller_.instance) {
    return HandleUnexpectedMessage(message);
  }
  controller_.last_heard = loop_.Now();
  std::visit(
      [this](const auto& body) {
        using Body = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, wire::Heartbeat> ||
                      std::is_same_v<Body, wire::PathPush> ||
                      std::is_same_v<Body, wire::ProbeOrder> ||
                      std::is_same_v<Body, wire::TrainOrder>) {
          Handle(body);
        } else if constexpr (std::is_same_v<Body, wire::RankPlan>) {
          plans_.HandlePlan(body);
        } else {
          metrics_.bad_messages.Add();  // controllers do not send this to agents
        }
      },
      message.body);
}

// Handles a message of a controller that has not welcomed this agent: it has restarted, or it was
// replaced. A stale push is answered, so that its sender learns that it has a successor.
void Agent::HandleUnexpectedMessage(const wire::Message& message) {
  const auto* push = std::get_if<wire::PathPush>(&message.body);
  if (push != nullptr && push->epoch < ports_.highest_epoch()) return Handle(*push);
  if (state_ == AgentState::kSynced) return LoseController();
  // The controller is back, so the next Hello must not wait long.
  if (hello_wait_ <= 2 * options_.min_hello_wait) return;
  hello_wait_ = options_.min_hello_wait;
  SendHello();
}

void Agent::Handle(const wire::Welcome& welcome) {
  const bool other_version = welcome.accepted && welcome.protocol_major != wire::kProtocolMajor;
  if (!welcome.accepted || other_version) {
    Log(LogLevel::kWarning, "event=refused agent={} cause=\"{}\" controller_protocol={}.{}",
        options_.name, other_version ? "another protocol version" : welcome.reason,
        welcome.protocol_major, welcome.protocol_minor);
    if (state_ == AgentState::kSynced) LoseController();
    timers_.hello = loop_.After(options_.refused_hello_wait, [this] { SendHello(); });
    return;
  }
  timers_.hello.reset();
  timers_.lease.reset();
  hello_wait_ = options_.min_hello_wait;
  controller_.heartbeat_interval = HeartbeatInterval(welcome.heartbeat_interval_us);
  controller_.last_heard = loop_.Now();
  budget_.SetLimits(welcome, loop_.Now());
  TakeReportInterval(welcome.report_interval_us);
  report_sequence_ = 0;
  needs_full_report_ = true;
  controller_.owes_welcome = false;
  prober_.ForgetController();
  link_tester_.ForgetController();
  SetState(AgentState::kSynced);
  timers_.heartbeat = loop_.After(controller_.heartbeat_interval, [this] { SendHeartbeat(); });
  Look();
}

void Agent::TakeReportInterval(std::uint64_t microseconds) {
  reporter_.SetProgressInterval(microseconds < kMaxReportUs
                                    ? std::chrono::microseconds(microseconds)
                                    : std::chrono::microseconds(kMaxReportUs));
}

void Agent::Handle(const wire::Heartbeat& heartbeat) {
  TakeReportInterval(heartbeat.report_interval_us);
  meter_.Want(heartbeat.wanted);
  // Messages arrive in order, so a generation that is announced but not applied was lost.
  const bool lost_a_push = heartbeat.epoch == ports_.highest_epoch() &&
                           heartbeat.generation > ports_.applied_generation();
  if (!lost_a_push) return;
  metrics_.incomplete_pushes.Add();
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
  if (push.epoch >= epoch && !plans_.HasAllPlans(push)) {
    metrics_.incomplete_pushes.Add();
    return Send(wire::Ack{.epoch = push.epoch,
                          .generation = push.generation,
                          .status = wire::AckStatus::kNeedFull,
                          .detail = "rank plans of this generation were lost",
                          .failed_flows = {}});
  }
  const std::size_t unsteered = ports_.CountUnsteered();
  wire::Ack ack = ports_.HandlePush(push);
  if (ports_.CountUnsteered() != unsteered) {
    Log(LogLevel::kInfo, "event=steering agent={} flows_unsteered={}", options_.name,
        ports_.CountUnsteered());
  }
  const bool is_applied =
      ports_.highest_epoch() == push.epoch && ports_.applied_generation() == push.generation;
  if (is_applied && (push.full || push.epoch > epoch || push.generation > generation)) {
    plans_.Apply(push);
  }
  metrics_.apply_seconds.ObserveSeconds(SecondsOf(loop_.Now() - received));
  guard_.NoteMoves();
  switch (ack.status) {
    case wire::AckStatus::kApplied:
    case wire::AckStatus::kFailed:
      metrics_.pushes_applied.Add();
      break;
    case wire::AckStatus::kStaleEpoch:
      metrics_.stale_pushes.Add();
      break;
    case wire::AckStatus::kNeedFull:
      metrics_.incomplete_pushes.Add();
      break;
  }
  Send(std::move(ack));
}

void Agent::Handle(const wire::ProbeOrder& order) {
  prober_.Start(order, [this](const wire::ProbeReport& report) { Send(report); });
}

void Agent::Handle(const wire::TrainOrder& order) { link_tester_.Handle(order); }

bool Agent::IsOwnAddress(const IpAddress& address) const {
  return std::ranges::find(nics_, address, &wire::Nic::address) != nics_.end();
}

void Agent::SendReport(const wire::CollectiveReport& report) {
  if (state_ == AgentState::kSynced) Send(report);
}

void Agent::SendHeartbeat() {
  if (loop_.Now() - controller_.last_heard >= kSilentIntervals * controller_.heartbeat_interval) {
    Log(LogLevel::kWarning, "event=controller_silent agent={}", options_.name);
    bus_.Disconnect(kControllerPeer);  // the connection may be dead, and a Hello needs a live one
    return LoseController();
  }
  if (Features() != controller_.sent_features) {
    SendHello();
    controller_.owes_welcome = true;
  }
  if (!controller_.owes_welcome) {
    Send(wire::Heartbeat{.sequence = report_sequence_,
                         .epoch = ports_.highest_epoch(),
                         .generation = ports_.applied_generation()});
  }
  timers_.heartbeat = loop_.After(controller_.heartbeat_interval, [this] { SendHeartbeat(); });
}

void Agent::LoseController() {
  if (state_ != AgentState::kSynced) return;
  SetState(AgentState::kOrphan);
  controller_.owes_welcome = false;
  timers_.heartbeat.reset();
  prober_.ForgetController();
  link_tester_.ForgetController();
  LiftRates();
  timers_.lease = loop_.After(
      std::max(Duration::zero(), options_.lease - (loop_.Now() - controller_.last_heard)),
      [this] { ExpireLease(); });
  hello_wait_ = options_.min_hello_wait;
  SendHello();
}

// A rate is right only while the controller adapts it to who else is sending.
void Agent::LiftRates() {
  const std::size_t lifted = ports_.LiftRates();
  if (lifted == 0) return;
  metrics_.rates_lifted.Add(static_cast<std::int64_t>(lifted));
  Log(LogLevel::kInfo, "event=rates_lifted agent={} flows={} reason=\"the controller is silent\"",
      options_.name, lifted);
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
  // Without a controller, the next Hello reports it.
  if (state_ != AgentState::kSynced) return;
  Send(wire::LinkEvent{.link = {}, .address = nic.address, .up = nic.link_up, .source = "nic"});
}

void Agent::Look() {
  timers_.change.reset();
  timers_.look.reset();
  const std::span<const FlowSample> flows = source_.Flows();
  ports_.HandleFlows(flows);
  if (state_ != AgentState::kSynced) LiftRates();  // programs may have kept some
  const std::span<const FlowMeasure> elephants = meter_.Measure(loop_.Now(), flows);
  for (const wire::LocalFlowId flow : meter_.WithoutPlace()) ports_.Withdraw(flow);
  metrics_.flows_tracked.Set(static_cast<double>(elephants.size()));
  metrics_.flows_on_duty_cycle.Set(static_cast<double>(std::ranges::count_if(
      elephants, [](const FlowMeasure& flow) { return flow.activity.duty_permille != 0; })));
  metrics_.flows_keeping_rates.Set(static_cast<double>(std::ranges::count_if(
      elephants, [](const FlowMeasure& flow) { return flow.sample->keeps_rate; })));
  metrics_.flows_unsteered.Set(static_cast<double>(ports_.CountUnsteered()));
  metrics_.flows_rate_limited.Set(static_cast<double>(ports_.CountRates()));
  if (state_ == AgentState::kSynced) Report(elephants);
  guard_.HandleMeasures(elephants);
  sampler_.HandleMeasures(loop_.Now(), elephants);
  if (!held_health_.flows.empty() && budget_.HasRoomFor(MessageClass::kFindings, loop_.Now())) {
    Send(std::exchange(held_health_, {}));
  }
  const bool owes_report = state_ == AgentState::kSynced && (needs_full_report_ || owes_report_);
  if (!flows.empty() || owes_report || !held_health_.flows.empty()) {
    timers_.look = loop_.After(LookInterval(flows.size()), [this] { Look(); });
  }
}

Duration Agent::LookInterval(std::size_t flows) const {
  const Duration affordable = kLookWaitOfFlow * static_cast<Duration::rep>(flows);
  return std::min(options_.reporter.progress_interval,
                  std::max(options_.look_interval, affordable));
}

void Agent::Report(std::span<const FlowMeasure> flows) {
  if (controller_.owes_welcome) return;
  // A report that is not sent becomes part of the next one.
  owes_report_ = !budget_.HasRoomFor(MessageClass::kFlows, loop_.Now());
  if (owes_report_) return metrics_.reports_delayed.Add();
  const auto port_of = [this](const FlowSample& sample) { return PortOf(sample); };
  std::vector<wire::FlowReport> reports;
  if (needs_full_report_) {
    reports.push_back(reporter_.ReportAll(loop_.Now(), flows, port_of));
    needs_full_report_ = false;
  } else {
    const std::uint64_t edge_rows = reporter_.edge_rows();
    reports = reporter_.ReportChanges(loop_.Now(), flows, port_of);
    metrics_.edges_reported.Add(static_cast<std::int64_t>(reporter_.edge_rows() - edge_rows));
    for (const wire::FlowReport& report : reports) {
      for (const wire::OpenedFlow& flow : report.opened) {
        metrics_.report_latency.ObserveSeconds(1e-6 * static_cast<double>(flow.age_us));
      }
    }
  }
  for (wire::FlowReport& report : reports) {
    report.sequence = report_sequence_ + 1;
    report.sent_us =
        static_cast<std::uint64_t>(loop_.Now().time_since_epoch() / std::chrono::microseconds(1));
    if (!Transmit(std::move(report))) {
      needs_full_report_ = true;  // the controller cannot apply differences to a lost report
      return;
    }
    ++report_sequence_;
    metrics_.reports_sent.Add();
  }
}

PortInUse Agent::PortOf(const FlowSample& sample) const {
  // A program takes its port at the next message, so its future port counts.
  const wire::PathSet* const set = ports_.Find(sample.id);
  const std::uint16_t port = set == nullptr ? sample.source_port : set->paths.front().source_port;
  PortInUse in_use{.port = port, .steered = ports_.IsSteered(sample.id, port), .path_ports = {}};
  if (set == nullptr || (set->paths.size() < 2 && in_use.steered)) return in_use;
  for (const wire::FlowPath& path : set->paths) in_use.path_ports.push_back(path.source_port);
  return in_use;
}

}  // namespace espalier::agent
