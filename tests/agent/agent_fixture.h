#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "proto/decode.h"
#include "proto/encode.h"
#include "tests/agent/manual_loop.h"

namespace espalier::agent {

inline constexpr Duration kMs = std::chrono::milliseconds(1);
inline constexpr Duration kSecond = std::chrono::seconds(1);

// The test acts as the controller: it reads the agent's messages and answers them explicitly.
class FakeBus : public Bus {
 public:
  void SetHandlers(Handlers handlers) override { handlers_ = std::move(handlers); }
  bool Send(PeerId, std::string bytes) override {
    if (is_full) return false;
    const Result<const wire::Message*> message = decoder_.Decode(bytes);
    EXPECT_TRUE(message) << message.error().message;
    if (message) sent.push_back(**message);
    return true;
  }
  void Disconnect(PeerId) override {}

  void Deliver(wire::Body body, std::uint64_t instance) {
    handlers_.on_message(kControllerPeer,
                         wire::Encode({.sender_instance = instance, .body = std::move(body)}));
  }
  void DeliverBytes(std::string_view bytes) { handlers_.on_message(kControllerPeer, bytes); }

  // Takes all messages of one kind since the last call; others stay.
  template <typename Body>
  std::vector<Body> Take() {
    std::vector<Body> taken;
    std::erase_if(sent, [&taken](const wire::Message& message) {
      const auto* body = std::get_if<Body>(&message.body);
      if (body != nullptr) taken.push_back(*body);
      return body != nullptr;
    });
    return taken;
  }

  std::vector<wire::Message> sent;
  bool is_full = false;

 private:
  Handlers handlers_;
  wire::Decoder decoder_;
};

class FakeSource : public FlowSource {
 public:
  std::span<const FlowSample> Flows() override {
    samples_.clear();
    for (const auto& [id, sample] : flows) samples_.push_back(sample);
    return samples_;
  }
  void OnChange(std::function<void()> callback) override { on_change = std::move(callback); }

  std::map<wire::LocalFlowId, FlowSample> flows;
  std::function<void()> on_change;

 private:
  std::vector<FlowSample> samples_;
};

class FakeActuator : public FlowActuator {
 public:
  explicit FakeActuator(FakeSource& source) : source_(source) {}
  Result<void> Apply(const wire::PathSet& paths) override {
    ++calls;
    if (!source_.flows.contains(paths.flow)) return Fail(ErrorCode::kNotFound, "no such flow");
    if (refused.contains(paths.flow)) return Fail(ErrorCode::kUnsupported, "cannot");
    source_.flows[paths.flow].kept = {};
    ports[paths.flow] = paths.paths.front().source_port;
    last[paths.flow] = paths;
    return {};
  }
  Result<void> Clear(wire::LocalFlowId flow) override {
    ++calls;
    ports.erase(flow);
    const auto open = source_.flows.find(flow);
    if (open != source_.flows.end()) open->second.kept = {};
    return {};
  }

  std::map<wire::LocalFlowId, std::uint16_t> ports;  // none: plain ECMP
  std::map<wire::LocalFlowId, wire::PathSet> last;
  std::set<wire::LocalFlowId> refused;
  int calls = 0;

 private:
  FakeSource& source_;
};

// A fabric in which some ports are dead; probes from others are answered at once by 172.16.0.<ttl>.
class FakeProbes : public ProbeSocket {
 public:
  Result<ProbeMark> Send(const Probe& probe) override {
    if (error) return tl::unexpected<Error>(*error);
    sent.push_back(probe);
    const ProbeMark mark = MarkOfLast();
    if (answers && !dead_ports.contains(probe.source_port)) Answer(probe, mark);
    return mark;
  }
  void OnReply(std::function<void(const ProbeReply&)> callback) override {
    on_reply_ = std::move(callback);
  }
  // The mark of the latest probe, which differs from those of all others.
  ProbeMark MarkOfLast() const {
    return {.head = static_cast<std::uint32_t>(sent.size()), .nonce = 7};
  }
  void Answer(const Probe& probe, const ProbeMark& mark) {
    pending.push_back({.source = probe.source,
                       .destination = probe.destination,
                       .source_port = probe.source_port,
                       .destination_port = probe.destination_port,
                       .ttl = probe.ttl,
                       .responder = IpAddress::FromV4(0xAC100000U + probe.ttl),
                       .mark = mark});
  }
  // Delivers the answers to the agent, as a real socket does.
  void DeliverAnswers() {
    for (const ProbeReply& reply : std::exchange(pending, {})) on_reply_(reply);
  }

  std::vector<Probe> sent;
  std::vector<ProbeReply> pending;
  std::set<std::uint16_t> dead_ports;
  bool answers = true;
  std::optional<Error> error;

 private:
  std::function<void(const ProbeReply&)> on_reply_;
};

// Records the packets of trains to send; the test lets packets arrive.
class FakeTrains : public TrainSocket {
 public:
  Result<void> Send(const TrainPacket& packet) override {
    if (refused_sends > 0) {
      --refused_sends;
      return Fail(ErrorCode::kUnavailable, "full");
    }
    sent.push_back(packet);
    return {};
  }
  Result<void> Listen(std::uint16_t to) override {
    if (to != 0 && is_taken) return Fail(ErrorCode::kFailedPrecondition, "in use");
    port = to;
    return {};
  }
  void OnArrival(std::function<void(const TrainArrival&)> callback) override {
    on_arrival_ = std::move(callback);
  }
  void HandleReady() override {
    for (const TrainArrival& arrival : std::exchange(unread, {})) Arrive(arrival);
  }
  std::uint64_t Dropped() override { return dropped; }

  void Arrive(const TrainArrival& arrival) { on_arrival_(arrival); }

  std::vector<TrainPacket> sent;
  std::vector<TrainArrival> unread;
  std::uint16_t port = 0;
  std::uint64_t dropped = 0;
  int refused_sends = 0;
  bool is_taken = false;

 private:
  std::function<void(const TrainArrival&)> on_arrival_;
};

class AgentTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kController = 77;

  void Make(AgentOptions options = {}) {
    options.name = "h0";
    options.instance = 42;
    options.nics = {{.address = Address("10.0.0.1"), .device = "eth0"}};
    agent_ = std::make_unique<Agent>(options, loop_, bus_, source_, actuator_, probes_, trains_,
                                     metrics_);
  }
  void Start(AgentOptions options = {}) {
    Make(std::move(options));
    agent_->Start();
  }
  // Starts the agent, welcomes it and reads its first full report.
  void Sync(AgentOptions options = {}) {
    Start(std::move(options));
    Welcome();
    bus_.sent.clear();
  }
  void Welcome(std::uint64_t instance = kController) {
    bus_.Deliver(wire::Welcome{.accepted = true,
                               .reason = {},
                               .epoch = 1,
                               .heartbeat_interval_us = 1'000'000,
                               .features = {}},
                 instance);
  }
  // Lets time pass while the controller sends heartbeats.
  void Live(Duration span) {
    for (const TimePoint end = loop_.Now() + span; loop_.Now() < end;) {
      if (controller_alive_) bus_.Deliver(wire::Heartbeat{}, kController);
      Step(std::min<Duration>(100 * kMs, end - loop_.Now()));
    }
  }
  void Step(Duration span) {
    for (const TimePoint end = loop_.Now() + span; loop_.Now() < end;) {
      loop_.Advance(std::min<Duration>(kMs, end - loop_.Now()));
      probes_.DeliverAnswers();
    }
  }

  static IpAddress Address(const char* text) { return IpAddress::Parse(text).value(); }

  FlowSample& Open(std::uint64_t id, std::uint64_t remaining = 64 << 20) {
    FlowSample sample{.id = wire::LocalFlowId(id),
                      .job = "a",
                      .source = Address("10.0.0.1"),
                      .destination = Address("10.1.0.1"),
                      .source_port = static_cast<std::uint16_t>(40'000 + id),
                      .first_seen = loop_.Now(),
                      .remaining_bytes = remaining};
    FlowSample& placed = source_.flows[sample.id] = sample;
    Changed();
    return placed;
  }
  void End(std::uint64_t id) {
    source_.flows.erase(wire::LocalFlowId(id));
    Changed();
  }
  void Changed() {
    if (source_.on_change) loop_.Post(source_.on_change);
    loop_.Advance(Duration::zero());
  }

  static wire::PathSet Set(std::uint64_t flow, std::uint16_t port) {
    wire::PathSet set;
    set.flow = wire::LocalFlowId(flow);
    set.paths = {{.source_port = port, .path_id = port % 4U, .encoding = {}}};
    return set;
  }
  wire::Ack Push(wire::PathPush push) {
    bus_.Deliver(std::move(push), kController);
    const std::vector<wire::Ack> acks = bus_.Take<wire::Ack>();
    EXPECT_EQ(acks.size(), 1u);
    return acks.empty() ? wire::Ack{} : acks[0];
  }
  static wire::PathPush Difference(std::uint64_t epoch, std::uint64_t generation,
                                   std::vector<wire::PathSet> sets) {
    return {.epoch = epoch, .generation = generation, .sets = std::move(sets), .withdrawn = {}};
  }
  static wire::PathPush Full(std::uint64_t epoch, std::uint64_t generation,
                             std::vector<wire::PathSet> sets) {
    return {.epoch = epoch,
            .generation = generation,
            .full = true,
            .sets = std::move(sets),
            .withdrawn = {}};
  }
  std::uint16_t PortOf(std::uint64_t flow) const {
    const auto at = actuator_.ports.find(wire::LocalFlowId(flow));
    return at == actuator_.ports.end() ? std::uint16_t{0} : at->second;
  }

  ManualLoop loop_;
  FakeBus bus_;
  FakeSource source_;
  FakeActuator actuator_{source_};
  FakeProbes probes_;
  FakeTrains trains_;
  Metrics metrics_;
  bool controller_alive_ = true;
  std::unique_ptr<Agent> agent_;
};

}  // namespace espalier::agent
