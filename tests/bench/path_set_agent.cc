// The agent's side of path_set_bench.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/agent.h"
#include "agent/probe/sockets/no_probe_socket.h"
#include "agent/probe/sockets/no_train_socket.h"
#include "common/sim/sim_world.h"
#include "proto/decode.h"
#include "proto/encode.h"
#include "tests/bench/path_set_sides.h"

namespace espalier::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kBytesPerSecond = 50'000'000'000;
constexpr std::uint64_t kMessageBytes = std::uint64_t{1} << 30;

// Counts what the agent sends.
class CountingBus : public Bus {
 public:
  void SetHandlers(Handlers handlers) override { handlers_ = std::move(handlers); }
  bool Send(PeerId, std::string bytes) override {
    const auto decoded = decoder_.Decode(bytes);
    const wire::Body& body = (*decoded)->body;
    const auto* report = std::get_if<wire::FlowReport>(&body);
    if (report != nullptr && report->opened.empty() && !report->progress.empty()) {
      progress_bytes += static_cast<double>(bytes.size());
      progress_rows += static_cast<double>(report->progress.size());
    }
    if (std::holds_alternative<wire::PathHealth>(body)) {
      health_bytes += static_cast<double>(bytes.size());
      ++health_reports;
    }
    return true;
  }
  void Disconnect(PeerId) override {}
  void Deliver(wire::Body body) {
    handlers_.on_message(kControllerPeer, wire::Encode({7, std::move(body)}));
  }

  double progress_bytes = 0;
  double progress_rows = 0;
  double health_bytes = 0;
  double health_reports = 0;

 private:
  Handlers handlers_;
  wire::Decoder decoder_;
};

// Flows that are busy all the time and send evenly over their paths.
class BusyFlows : public agent::FlowSource, public agent::FlowActuator {
 public:
  BusyFlows(EventLoop& loop, int flows, int paths)
      : loop_(loop), paths_(static_cast<std::size_t>(paths)) {
    for (int i = 1; i <= flows; ++i) {
      samples_.push_back({.id = wire::LocalFlowId(static_cast<std::uint64_t>(i)),
                          .job = "train",
                          .source = IpAddress::FromV4(0x0A000001),
                          .destination = IpAddress::FromV4(0x0A010000U + static_cast<unsigned>(i)),
                          .source_port = 50'000,
                          .max_paths = static_cast<std::uint8_t>(paths),
                          .remaining_bytes = kMessageBytes,
                          .kept = {}});
      SetPorts(samples_.back(), 50'000);
    }
  }
  std::span<const agent::FlowSample> Flows() override {
    const auto sent = static_cast<std::uint64_t>(SecondsOf(loop_.Now() - TimePoint{}) *
                                                 static_cast<double>(kBytesPerSecond));
    for (agent::FlowSample& sample : samples_) {
      sample.sent_bytes = sent;
      sample.remaining_bytes = kMessageBytes - sent % kMessageBytes;
      sample.outstanding_bytes = 1 << 20;
      for (agent::PortProgress& port : sample.ports) port.sent_bytes = sent / paths_;
    }
    return samples_;
  }
  void OnChange(std::function<void()>) override {}
  Result<void> Apply(const wire::PathSet& set) override {
    SetPorts(samples_[set.flow.value() - 1], set.paths.front().source_port);
    return {};
  }
  Result<void> Clear(wire::LocalFlowId) override { return {}; }

 private:
  // A flow has its ports one after the other.
  void SetPorts(agent::FlowSample& sample, std::uint16_t first) const {
    sample.ports.clear();
    if (paths_ == 1) return;
    for (std::size_t i = 0; i < paths_; ++i) {
      sample.ports.push_back(
          {.source_port = static_cast<std::uint16_t>(first + i), .outstanding_bytes = 1 << 17});
    }
  }

  EventLoop& loop_;
  std::size_t paths_;
  std::vector<agent::FlowSample> samples_;
};

wire::PathPush PushTo(const PathSetOptions& options, const PathSetCase& with) {
  wire::PathPush push{.epoch = 1, .generation = 1, .sets = {}, .withdrawn = {}};
  for (int flow = 1; flow <= options.flows; ++flow) {
    wire::PathSet set;
    set.flow = wire::LocalFlowId(static_cast<std::uint64_t>(flow));
    for (int i = 0; i < (with.has_standbys ? 2 : 1) * with.paths; ++i) {
      const auto number = static_cast<std::uint32_t>(i);
      wire::FlowPath path{.source_port = static_cast<std::uint16_t>(50'000 + i),
                          .weight = i < with.paths ? 1U : 0U,
                          .path_id = number,
                          .encoding = {}};
      if (with.tells_links) path.links = {600 + number, 700 + number};
      set.paths.push_back(std::move(path));
    }
    push.sets.push_back(std::move(set));
  }
  return push;
}

}  // namespace

void MeasureAgent(const PathSetOptions& options, const PathSetCase& with, PathSetFigures& figures) {
  constexpr Duration kMeasured = 10s;
  sim::SimWorld world(1);
  const std::unique_ptr<EventLoop> loop = world.MakeLoop();
  world.RunFor(1s);
  CountingBus bus;
  BusyFlows flows(*loop, options.flows, with.paths);
  agent::NoProbeSocket probes;
  agent::NoTrainSocket trains;
  Metrics metrics;
  const double before_kib = AllocatedKib();
  agent::AgentOptions agent_options;
  agent_options.name = "h0";
  agent_options.instance = 1;
  agent::Agent agent(agent_options, *loop, bus, flows, flows, probes, trains, metrics);
  agent.Start();
  const auto beat = [&] {
    bus.Deliver(wire::Heartbeat{.epoch = 1, .wanted = {}});
    world.RunFor(500ms);
  };
  bus.Deliver(wire::Welcome{.accepted = true,
                            .reason = {},
                            .epoch = 1,
                            .heartbeat_interval_us = 1'000'000,
                            .features = {}});
  world.RunFor(100ms);
  bus.Deliver(PushTo(options, with));
  for (int i = 0; i < 4; ++i) beat();
  figures.agent_kib = (AllocatedKib() - before_kib) / options.flows;
  bus.progress_bytes = bus.progress_rows = bus.health_bytes = bus.health_reports = 0;
  const double before = ThreadCpuSeconds();
  for (Duration done{}; done < kMeasured; done += 500ms) beat();
  figures.agent_us = 1e6 * (ThreadCpuSeconds() - before) / options.flows / SecondsOf(kMeasured);
  figures.progress_bytes = bus.progress_bytes / bus.progress_rows;
  figures.health_bytes = bus.health_bytes / bus.health_reports / options.flows;
}

}  // namespace espalier::bench
