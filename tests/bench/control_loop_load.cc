#include "tests/bench/control_loop_load.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "agent/sim/sim_host.h"
#include "common/base/check.h"
#include "common/bus/zmq_dealer_bus.h"
#include "proto/encode.h"
#include "tests/bench/control_loop_fabric.h"
#include "tests/bench/probe_answers.h"

namespace espalier::bench {

using namespace std::chrono_literals;

namespace {

constexpr Duration kQuiet = 1s;
// Long enough for few timers, as setting one costs tens of microseconds in some virtual machines.
constexpr Duration kTick = 500us;
constexpr Duration kLookInterval = 2ms;
constexpr std::uint64_t kFirstRequestFlow = 1000;
constexpr int kDestinations = 16;
constexpr int kBatch = 4;  // one-way messages of an agent before the next agent's turn

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

struct Load::Agent {
  std::unique_ptr<Bus> bus;
  std::uint64_t instance = 0;
  std::string name;
  std::vector<IpAddress> addresses;  // the agent's own, then the destinations of its flows
  std::uint64_t open_flow = 0;       // of the last request; 0: none yet
  std::uint64_t next_flow = kFirstRequestFlow;
  std::set<wire::LocalFlowId> routed;  // routed flows among those that stay open
  bool waits = false;                  // for the port of open_flow
  TimePoint asked;
  std::uint64_t sequence = 0;
  std::vector<wire::FlowProgress> progress;
  std::string update;  // a one-way message, encoded
  std::int64_t updates_left = 0;
};

Load::Load(const LoadOptions& options, const std::string& endpoint, const KeysOf& keys_of)
    : options_(options) {
  fabric_ = std::move(sim::SimFabric::Build(loop_, MakeBenchTopology(options.agents, options.spines,
                                                                     options.fat_tree))
                          .value());
  const fabric::Topology& topology = fabric_->topology();
  const auto address_of = [&](int host) {
    return topology.node(*topology.FindNode(fmt::format("h{}", host))).addresses.front();
  };
  for (int i = options.first; i < (options.end > 0 ? options.end : options.agents); ++i) {
    auto agent = std::make_unique<Agent>();
    agent->name = fmt::format("h{}", i);
    agent->instance = static_cast<std::uint64_t>(i) + 1;
    agent->addresses.push_back(address_of(i));
    for (int flow = 0; flow < kDestinations; ++flow) {
      agent->addresses.push_back(address_of(RemoteHost(i, flow, options.agents, options.fat_tree)));
    }
    agent->bus =
        std::move(io::ZmqDealerBus::Connect(
                      loop_, {.endpoint = endpoint, .curve = keys_of ? keys_of(i) : std::nullopt})
                      .value());
    agent->bus->SetHandlers(
        {.on_message = [this, a = agent.get()](
                           PeerId, std::string_view bytes) { HandleMessage(*a, bytes); },
         .on_peer_gone = [](PeerId) { ESPALIER_CHECK(false, "the subject hung up"); }});
    agents_.push_back(std::move(agent));
  }
  Beat();
}

Load::~Load() = default;

void Load::RunUntil(const std::function<bool()>& done) {
  TimerPtr timer;
  const std::function<void()> look = [&] {
    if (done()) {
      loop_.Stop();
    } else {
      timer = loop_.After(kLookInterval, look);
    }
  };
  loop_.Post(look);
  loop_.Run();
}

void Load::Send(Agent& agent, wire::Body body) {
  // A full queue drops the message, as for a real agent; the controller asks again.
  agent.bus->Send(kControllerPeer, wire::Encode({agent.instance, std::move(body)}));
}

// Sends the heartbeat of each agent about once a second.
void Load::Beat() {
  constexpr Duration kInterval = 10ms;
  const std::size_t end = std::min(agents_.size(), next_beat_ + agents_.size() / 100 + 1);
  for (; next_beat_ < end; ++next_beat_) {
    Agent& agent = *agents_[next_beat_];
    if (!agent.progress.empty()) Send(agent, wire::Heartbeat{});
  }
  if (next_beat_ == agents_.size()) next_beat_ = 0;
  beat_timer_ = loop_.After(kInterval, [this] { Beat(); });
}

void Load::HandleMessage(Agent& agent, std::string_view bytes) {
  const Result<const wire::Message*> decoded = decoder_.Decode(bytes);
  ESPALIER_CHECK(decoded, "error={}", decoded.error().message);
  const wire::Body& body = (*decoded)->body;
  if (const auto* push = std::get_if<wire::PathPush>(&body)) {
    HandlePush(agent, *push);
  } else if (const auto* order = std::get_if<wire::ProbeOrder>(&body)) {
    AnswerOrder(agent, *order);
  } else if (const auto* welcome = std::get_if<wire::Welcome>(&body)) {
    ESPALIER_CHECK(welcome->accepted, "reason={}", welcome->reason);
    OpenFlows(agent, options_.flows);
  }
}

void Load::HandlePush(Agent& agent, const wire::PathPush& push) {
  last_activity_ = loop_.Now();
  for (const wire::PathSet& set : push.sets) {
    if (agent.waits && set.flow.value() == agent.open_flow) {
      agent.waits = false;
      --open_requests_;
      latencies_.push_back(Seconds(loop_.Now() - agent.asked));
    } else if (set.flow.value() < kFirstRequestFlow) {
      routed_ += agent.routed.insert(set.flow).second ? 1 : 0;
    }
  }
  Send(agent, wire::Ack{.epoch = push.epoch, .generation = push.generation});
}

void Load::AnswerOrder(Agent& agent, const wire::ProbeOrder& order) {
  last_activity_ = loop_.Now();
  Send(agent, bench::AnswerOrder(*fabric_, order));
}

wire::OpenedFlow Load::Describe(std::uint64_t flow) const {
  return {.id = wire::LocalFlowId(flow),
          .destination = static_cast<std::uint32_t>(1 + (flow - 1) % kDestinations),
          .age_us = 1000,
          .source_port = 0xC000};
}

void Load::OpenFlows(Agent& agent, int count) {
  const std::size_t known = agent.progress.size();
  wire::FlowReport report{.full = known == 0,
                          .sequence = ++agent.sequence,
                          .jobs = {"bench"},
                          .addresses = agent.addresses};
  while (agent.progress.size() < static_cast<std::size_t>(count)) {
    const std::uint64_t id = agent.progress.size() + 1;
    report.opened.push_back(Describe(id));
    agent.progress.push_back({.id = wire::LocalFlowId(id),
                              .remaining_bytes = 1'000'000'000 + 7919 * id,
                              .outstanding_bytes = 65'536,
                              .achieved_bps = 100'000'000'000});
  }
  report.progress.assign(agent.progress.begin() + static_cast<std::ptrdiff_t>(known),
                         agent.progress.end());
  Send(agent, std::move(report));
}

void Load::AwaitRouted(int flows) {
  RunUntil([&] { return routed_ >= agents_.size() * static_cast<std::size_t>(flows); });
}

double Load::Connect() {
  const TimePoint start = loop_.Now();
  for (const auto& agent : agents_) {
    Send(*agent, wire::Hello{.name = agent->name, .nics = {{.address = agent->addresses[0]}}});
  }
  AwaitRouted(options_.flows);
  return Seconds(loop_.Now() - start);
}

void Load::FailOrRestore(const std::string& name) {
  for (const fabric::DirectedLink link :
       fabric_->topology().Outgoing(*fabric_->topology().FindNode(name))) {
    const bool is_up = fabric_->topology().link(link.link).state == fabric::LinkState::kUp;
    fabric_->SetLink(link.link, is_up ? fabric::LinkState::kDown : fabric::LinkState::kUp);
  }
}

void Load::Serve(int switches) {
  const std::jthread reader([this, switches] {
    std::string name;
    for (char c = 0; read(switches, &c, 1) == 1;) {
      if (c != '\n') {
        name.push_back(c);
      } else {
        loop_.Post([this, of = std::exchange(name, {})] { FailOrRestore(of); });
      }
    }
  });
  loop_.Run();
}

double Load::Reconnect() {
  routed_ = 0;
  const TimePoint start = loop_.Now();
  std::vector<Agent*> silent;
  for (const auto& agent : agents_) {
    agent->routed.clear();
    agent->progress.clear();
    agent->sequence = 0;
    agent->open_flow = 0;
    agent->bus->Disconnect(kControllerPeer);
    silent.push_back(agent.get());
  }
  const std::size_t all = agents_.size() * static_cast<std::size_t>(options_.flows);
  RunUntil([&] {
    std::erase_if(
        silent, [&](Agent* agent) {  // an agent that is not connected yet accepts no message
          return agent->bus->Send(
              kControllerPeer,
              wire::Encode(
                  {agent->instance,
                   wire::Hello{.name = agent->name, .nics = {{.address = agent->addresses[0]}}}}));
        });
    return routed_ >= all;
  });
  return Seconds(loop_.Now() - start);
}

void Load::Settle() {
  last_activity_ = loop_.Now();
  RunUntil([&] { return loop_.Now() - last_activity_ > kQuiet; });
}

bool Load::SendRequest(Agent& agent) {
  wire::FlowReport report{.sequence = agent.sequence + 1,
                          .jobs = {"bench"},
                          .addresses = {agent.addresses[0], agent.addresses[1]},
                          .progress = agent.progress};
  if (agent.open_flow != 0) report.ended.push_back(wire::LocalFlowId(agent.open_flow));
  wire::OpenedFlow opened = Describe(agent.next_flow);
  opened.destination = 1;
  report.opened.push_back(opened);
  const TimePoint now = loop_.Now();
  if (!agent.bus->Send(kControllerPeer, wire::Encode({agent.instance, std::move(report)}))) {
    return false;
  }
  ++agent.sequence;
  agent.open_flow = agent.next_flow++;
  agent.waits = true;
  agent.asked = now;
  ++open_requests_;
  return true;
}

Load::Latencies Load::RequestReply(double messages_per_second, double seconds) {
  latencies_.clear();
  Latencies result;
  const TimePoint start = loop_.Now();
  std::int64_t sent = 0;
  std::size_t turn = 0;
  TimerPtr timer;
  bool over = false;
  const std::function<void()> tick = [&] {
    const double elapsed = Seconds(loop_.Now() - start);
    const auto due = static_cast<std::int64_t>(std::min(elapsed, seconds) * messages_per_second);
    for (; sent < due; ++sent) {
      Agent& agent = *agents_[turn++ % agents_.size()];
      if (agent.waits || !SendRequest(agent)) ++result.skipped;
    }
    over = elapsed >= seconds;
    if (!over) timer = loop_.After(kTick, tick);
  };
  loop_.Post(tick);
  RunUntil([&] { return over && open_requests_ == 0; });
  result.elapsed = Seconds(loop_.Now() - start);
  result.seconds = std::exchange(latencies_, {});
  std::sort(result.seconds.begin(), result.seconds.end());
  return result;
}

void Load::PrepareOneWay() {
  for (const auto& agent : agents_) OpenFlows(*agent, options_.update_flows);
  AwaitRouted(options_.update_flows);
  for (const auto& agent : agents_) {
    agent->update = wire::Encode({agent->instance, wire::FlowReport{.sequence = agent->sequence,
                                                                    .progress = agent->progress}});
  }
}

double Load::OneWay(std::int64_t messages) {
  const auto count = static_cast<std::int64_t>(agents_.size());
  for (std::int64_t i = 0; i < count; ++i) {
    agents_[static_cast<std::size_t>(i)]->updates_left =
        messages / count + (i < messages % count ? 1 : 0);
  }
  const TimePoint start = loop_.Now();
  std::size_t busy = agents_.size();
  std::vector<bool> asked(agents_.size(), false);
  const std::function<void()> round = [&] {
    for (std::size_t i = 0; i < agents_.size(); ++i) {
      Agent& agent = *agents_[i];
      for (int n = 0; n < kBatch && agent.updates_left > 0; ++n) {
        if (!agent.bus->Send(kControllerPeer, agent.update)) break;
        --agent.updates_left;
      }
      if (agent.updates_left > 0 || asked[i] || !SendRequest(agent)) continue;
      asked[i] = true;
      --busy;
    }
    if (busy > 0) loop_.Post(round);
  };
  loop_.Post(round);
  RunUntil([&] { return busy == 0 && open_requests_ == 0; });
  return Seconds(loop_.Now() - start);
}

}  // namespace espalier::bench
