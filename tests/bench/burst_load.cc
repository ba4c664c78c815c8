#include "tests/bench/burst_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <variant>

#include "agent/flows/flow_reporter.h"
#include "agent/sim/sim_host.h"
#include "common/base/check.h"
#include "common/bus/zmq_dealer_bus.h"
#include "proto/encode.h"
#include "tests/bench/control_loop_fabric.h"
#include "tests/bench/probe_answers.h"

namespace espalier::bench {

using namespace std::chrono_literals;

namespace {

constexpr Duration kTick = 1ms;
constexpr int kReportsAtOnce = 8;  // then what has arrived is taken, so that it does not seem late
constexpr int kNoPhase = -1;
constexpr Duration kHeartbeat = 1s;
constexpr std::uint32_t kReportedAfterUs = 1'000;  // agents look every 2 ms
// An idle edge is known once the flow has been idle for EdgeFilterOptions::idle_after. Its report
// waits for that of a busy edge, for FlowReporterOptions::max_idle_report_delay at most.
constexpr Duration kIdleKnownAfter = 11ms;

std::uint64_t MicrosecondsSince(TimePoint time, TimePoint now) {
  return static_cast<std::uint64_t>((now - time) / 1us);
}

}  // namespace

struct BurstLoad::Agent {
  std::unique_ptr<Bus> bus;
  std::uint64_t instance = 0;
  std::string name;
  std::vector<IpAddress> addresses;  // its own, then the destinations of its flows
  std::uint64_t sequence = 0;
  std::vector<std::uint32_t> edges;   // by flow
  std::vector<TimePoint> idle_since;  // by flow, if its idle edge waits for a report
  std::vector<TimePoint> busy_since;  // by flow, if nothing was pushed for it since
  std::vector<bool> routed;
};

BurstLoad::BurstLoad(const BurstLoadOptions& options, const std::string& endpoint)
    : options_(options) {
  fabric_ = std::move(sim::SimFabric::Build(loop_, MakeBenchTopology(options.agents)).value());
  const fabric::Topology& topology = fabric_->topology();
  const auto address_of = [&](int host) {
    return topology.node(*topology.FindNode(fmt::format("h{}", host))).addresses.front();
  };
  for (int i = 0; i < options.agents; ++i) {
    auto agent = std::make_unique<Agent>();
    agent->name = fmt::format("h{}", i);
    agent->instance = static_cast<std::uint64_t>(i) + 1;
    agent->addresses.push_back(address_of(i));
    for (int flow = 0; flow < options.flows; ++flow) {
      agent->addresses.push_back(address_of(RemoteHost(i, flow, options.agents)));
    }
    agent->edges.assign(agent->addresses.size() - 1, 2);
    agent->idle_since.resize(agent->edges.size());
    agent->busy_since.resize(agent->edges.size());
    agent->routed.resize(agent->edges.size());
    agent->bus = std::move(
        io::ZmqDealerBus::Connect(loop_, {.endpoint = endpoint, .curve = std::nullopt}).value());
    agent->bus->SetHandlers(
        {.on_message = [this, a = agent.get()](
                           PeerId, std::string_view bytes) { HandleMessage(*a, bytes); },
         .on_peer_gone = [](PeerId) { ESPALIER_CHECK(false, "the subject hung up"); }});
    agents_.push_back(std::move(agent));
  }
}

BurstLoad::~BurstLoad() = default;

bool BurstLoad::Send(Agent& agent, wire::Body body) {
  return agent.bus->Send(kControllerPeer, wire::Encode({agent.instance, std::move(body)}));
}

void BurstLoad::HandleMessage(Agent& agent, std::string_view bytes) {
  const Result<const wire::Message*> decoded = decoder_.Decode(bytes);
  ESPALIER_CHECK(decoded, "error={}", decoded.error().message);
  const wire::Body& body = (*decoded)->body;
  if (const auto* push = std::get_if<wire::PathPush>(&body)) {
    HandlePush(agent, *push);
  } else if (const auto* order = std::get_if<wire::ProbeOrder>(&body)) {
    ++figures_.orders;
    AnswerOrder(agent, *order);
  } else {
    ++figures_.others;
    if (std::holds_alternative<wire::Welcome>(body)) Open(agent);
  }
}

void BurstLoad::HandlePush(Agent& agent, const wire::PathPush& push) {
  ++figures_.pushes;
  const TimePoint now = loop_.Now();
  for (const wire::PathSet& set : push.sets) {
    ++figures_.moves[set.reason];
    const std::size_t flow = set.flow.value() - 1;
    routed_ += agent.routed[flow] ? 0 : 1;
    agent.routed[flow] = true;
    const TimePoint since = std::exchange(agent.busy_since[flow], TimePoint{});
    // A full push repeats all decisions. A port may come when the flow is idle again: that is late.
    const bool is_decision = set.reason == wire::PathReason::kAssigned && !push.full;
    if (is_decision && since != TimePoint{}) {
      figures_.decided_seconds.push_back(SecondsOf(now - since));
    }
  }
  Send(agent, wire::Ack{.epoch = push.epoch, .generation = push.generation});
}

void BurstLoad::AnswerOrder(Agent& agent, const wire::ProbeOrder& order) {
  Send(agent, bench::AnswerOrder(*fabric_, order));
}

void BurstLoad::Open(Agent& agent) {
  wire::FlowReport report{
      .full = true, .sequence = ++agent.sequence, .jobs = {"train"}, .addresses = agent.addresses};
  for (std::size_t flow = 0; flow < agent.edges.size(); ++flow) {
    report.opened.push_back({.id = wire::LocalFlowId(flow + 1),
                             .destination = static_cast<std::uint32_t>(flow + 1),
                             .age_us = 1'000,
                             .source_port = 0xC000});
    report.progress.push_back({.id = wire::LocalFlowId(flow + 1),
                               .state = wire::FlowState::kIdle,
                               .edges = agent.edges[flow],
                               .edge_age_us = 1'000});
  }
  Send(agent, std::move(report));
}

void BurstLoad::Connect() {
  for (const auto& agent : agents_) {
    Send(*agent, wire::Hello{.name = agent->name, .nics = {{.address = agent->addresses[0]}}});
  }
  const std::size_t all =
      static_cast<std::size_t>(options_.agents) * static_cast<std::size_t>(options_.flows);
  TimerPtr timer;
  const std::function<void()> look = [&] {
    if (routed_ >= all) return loop_.Stop();
    timer = loop_.After(2ms, look);
  };
  loop_.Post(look);
  loop_.Run();
}

void BurstLoad::BeginPhase(Agent& agent, int phase, TimePoint due) {
  for (std::size_t i = static_cast<std::size_t>(phase); i < agent.edges.size();
       i += static_cast<std::size_t>(options_.phases)) {
    ++agent.edges[i];
    agent.busy_since[i] = loop_.Now();
    agent.idle_since[i] = {};
  }
  ReportEdges(agent, phase, due);
}

void BurstLoad::EndPhase(Agent& agent, int phase, TimePoint due) {
  const TimePoint since = due - kIdleKnownAfter;
  for (std::size_t i = static_cast<std::size_t>(phase); i < agent.edges.size();
       i += static_cast<std::size_t>(options_.phases)) {
    ++agent.edges[i];
    agent.idle_since[i] = since;
  }
  waiting_.push_back({since, &agent});
}

void BurstLoad::ReportOverdue() {
  while (!waiting_.empty()) {
    const auto [since, agent] = waiting_.front();
    if (loop_.Now() - since < agent::FlowReporterOptions{}.max_idle_report_delay) return;
    waiting_.pop_front();
    const bool waits = std::ranges::find(agent->idle_since, since) != agent->idle_since.end();
    if (waits) ReportEdges(*agent, kNoPhase, {});
  }
}

void BurstLoad::ReportEdges(Agent& agent, int phase, TimePoint due) {
  const TimePoint now = loop_.Now();
  wire::FlowReport report{.sequence = ++agent.sequence, .sent_us = MicrosecondsSince({}, now)};
  const std::uint64_t busy_us = MicrosecondsSince(due, now) + kReportedAfterUs;
  for (std::size_t i = 0; i < agent.edges.size(); ++i) {
    const bool is_busy = agent.edges[i] % 2 == 1;
    const bool has_begun = is_busy && static_cast<int>(i) % options_.phases == phase;
    const TimePoint idle = std::exchange(agent.idle_since[i], {});
    if (!has_begun && idle == TimePoint{}) continue;
    const std::uint64_t idle_us = MicrosecondsSince(idle, now);
    report.progress.push_back({.id = wire::LocalFlowId(i + 1),
                               .outstanding_bytes = is_busy ? 1U << 20U : 0U,
                               .achieved_bps = 50'000'000'000,
                               .state = is_busy ? wire::FlowState::kActive : wire::FlowState::kIdle,
                               .sent_bytes = std::uint64_t{agent.edges[i]} << 30U,
                               .edges = agent.edges[i],
                               .edge_age_us = is_busy ? busy_us : idle_us});
  }
  const std::size_t rows = report.progress.size();
  if (Send(agent, std::move(report))) {
    figures_.edges += rows;
    ++figures_.reports;
  } else {  // as a real agent, it tells of these edges by its next report
    --agent.sequence;
    ++figures_.refused;
  }
}

BurstLoad::Figures BurstLoad::Run(double seconds, const Disturbances& disturbances) {
  figures_ = {};
  const auto nanoseconds = [](double value) {
    return Duration(static_cast<std::int64_t>(1e9 * value));
  };
  // In each period, every phase begins and ends once; the ends are told late.
  const Duration phase = nanoseconds(2.0 / options_.edges_per_second / options_.phases);
  const Duration step = phase / 2;
  const TimePoint start = loop_.Now();
  const std::size_t flow_agents = agents_.size();
  // Agents in no order, as hosts of a leaf do not report one after the other.
  std::vector<std::size_t> order(flow_agents);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  const std::size_t whole = 2 * flow_agents * static_cast<std::size_t>(options_.phases);
  std::size_t sent = 0;  // reports, by step and then agent
  TimePoint next_beat = start;
  std::size_t beats = 0;
  TimePoint next_disturbance = start;
  TimerPtr timer;
  const std::function<void()> tick = [&] {
    const TimePoint now = loop_.Now();
    // All agents report within a quarter of each step, as they do not look at the same moment.
    bool has_more = false;
    for (int reports = 0;; ++reports) {
      const bool is_whole_now = reports > 0 && sent % whole == 0;
      const auto number = static_cast<std::int64_t>(sent / flow_agents);
      const auto place = static_cast<std::int64_t>(sent % flow_agents);
      const TimePoint due =
          start + number * step + place * (step / 4) / static_cast<std::int64_t>(flow_agents);
      has_more = due <= now && (is_whole_now || reports == kReportsAtOnce);
      if (due > now || has_more) break;
      figures_.late_seconds = std::max(figures_.late_seconds, SecondsOf(now - due));
      const int of = static_cast<int>(number / 2) % options_.phases;
      Agent& agent = *agents_[order[sent % flow_agents]];
      if (number % 2 == 0) {
        BeginPhase(agent, of, due);
      } else {
        EndPhase(agent, of, due);
      }
      ++sent;
    }
    ReportOverdue();
    for (; next_beat <= now; next_beat += kHeartbeat / static_cast<int>(agents_.size())) {
      Send(*agents_[beats++ % agents_.size()], wire::Heartbeat{});
    }
    if (disturbances.a_second > 0 && now >= next_disturbance) {
      next_disturbance = now + nanoseconds(1 / disturbances.a_second);
      disturbances.disturb();
    }
    const double passed = SecondsOf(now - start);
    const bool is_enough = figures_.decided_seconds.size() >= disturbances.fewest_decided ||
                           passed >= disturbances.most_seconds;
    if (passed >= seconds && is_enough && sent % whole == 0) return loop_.Stop();
    timer = loop_.After(has_more ? Duration{} : kTick, tick);
  };
  loop_.Post(tick);
  loop_.Run();
  figures_.seconds = SecondsOf(loop_.Now() - start);
  std::ranges::sort(figures_.decided_seconds);
  return std::exchange(figures_, {});
}

}  // namespace espalier::bench
