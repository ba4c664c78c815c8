#include "agent/sim/sim_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace espalier::sim {
namespace {

constexpr Duration kHopDelay = std::chrono::microseconds(5);

fabric::FlowTuple TupleOf(const agent::Probe& probe) {
  return {.source = probe.source,
          .destination = probe.destination,
          .protocol = wire::kProtocolUdp,
          .source_port = probe.source_port,
          .destination_port = probe.destination_port,
          .destination_qpn = probe.destination_qpn};
}

// Returns the address of the interface at which packets arrive over this direction of a link.
const IpAddress& EntryAddress(const fabric::Topology& topology, fabric::DirectedLink direction) {
  const fabric::Link& link = topology.link(direction.link);
  return direction.forward ? link.b_address : link.a_address;
}

}  // namespace

std::optional<agent::ProbeReply> AnswerProbe(SimFabric& fabric, const agent::Probe& probe) {
  const fabric::Topology& topology = fabric.topology();
  agent::ProbeReply reply{.source = probe.source,
                          .destination = probe.destination,
                          .source_port = probe.source_port,
                          .destination_port = probe.destination_port,
                          .ttl = probe.ttl};
  const auto source = topology.FindNic(probe.source);
  const auto destination = topology.FindNic(probe.destination);
  if (!fabric.answers_probes() || !source || !destination || probe.ttl == 0) return std::nullopt;
  const bool chooses = topology.HasSeveralUplinks(*source);
  if (probe.ttl == 1 && !chooses) {
    for (const fabric::DirectedLink direction : topology.Outgoing(*source)) {
      if (topology.LeavesHost(direction)) reply.responder = EntryAddress(topology, direction);
    }
  } else {
    const SimFabric::Route route = fabric.Trace(TupleOf(probe));
    // The uplink of a NIC that chooses one is the first hop, and the last one that leads to such a
    // NIC ends at the host.
    const std::size_t hop = probe.ttl - (chooses ? 1U : 2U);
    const bool ends_at_nic = route.arrives && topology.HasSeveralUplinks(*destination);
    if (hop + (ends_at_nic ? 1 : 0) < route.hops.size()) {
      reply.responder = EntryAddress(topology, route.hops[hop]);
    } else if (route.arrives) {
      reply.responder = probe.destination;
      reply.from_destination = true;
    }
  }
  if (reply.responder.IsNone()) return std::nullopt;
  return reply;
}

SimHost::SimHost(SimFabric& fabric, EventLoop& loop, fabric::NodeId nic)
    : fabric_(fabric), loop_(loop) {
  const fabric::Node& node = fabric_.topology().node(nic);
  ESPALIER_CHECK(!node.addresses.empty(), "nic={}", node.id);
  address_ = node.addresses.front();
}

wire::LocalFlowId SimHost::Open(Traffic traffic) {
  const wire::LocalFlowId local(next_flow_++);
  Flow flow;
  flow.job = std::move(traffic.job);
  flow.own_port = traffic.source_port;
  flow.opened = loop_.Now();
  flow.parts_left = traffic.paths;
  const std::uint64_t share = traffic.bytes / traffic.paths;
  const auto part_done = [this, local, done = std::move(traffic.done)] {
    const auto found = flows_.find(local);
    // The flow has been closed meanwhile, or other connections are not done.
    if (found == flows_.end() || --found->second.parts_left > 0) return;
    Close(local);
    if (done) done();
  };
  for (std::uint8_t i = 0; i < traffic.paths; ++i) {
    const fabric::FlowTuple tuple{
        .source = address_,
        .destination = traffic.destination,
        .source_port = static_cast<std::uint16_t>(traffic.source_port + i),
        .destination_port = wire::kRoceV2Port};
    const std::uint64_t bytes = i == 0 ? traffic.bytes - (traffic.paths - 1U) * share : share;
    flow.parts.push_back(
        fabric_.Start(tuple, bytes, traffic.bytes > 0 ? part_done : std::function<void()>()));
  }
  if (traffic.bytes == 0) flow.edges = {.count = 2, .last = flow.opened};
  flows_.emplace(local, std::move(flow));
  PostChange();
  return local;
}

void SimHost::SendBurst(wire::LocalFlowId local, std::uint64_t bytes, std::function<void()> done) {
  Flow& flow = flows_.at(local);
  ESPALIER_CHECK(flow.edges.count > 0 && flow.edges.count % 2 == 0, "flow={}", local.value());
  CountEdge(flow);
  flow.parts_left = flow.parts.size();
  const std::uint64_t share = bytes / flow.parts.size();
  const auto part_done = [this, local, done = std::move(done)] {
    const auto found = flows_.find(local);
    if (found == flows_.end() || --found->second.parts_left > 0) return;
    CountEdge(found->second);
    if (done) done();
  };
  for (std::size_t i = 0; i < flow.parts.size(); ++i) {
    const std::uint64_t part = i == 0 ? bytes - (flow.parts.size() - 1) * share : share;
    fabric_.Continue(flow.parts[i], part, part_done);
  }
}

void SimHost::CountEdge(Flow& flow) {
  const TimePoint now = loop_.Now();
  flow.edges = {.count = flow.edges.count + 1, .last = now, .between = now - flow.edges.last};
}

void SimHost::Close(wire::LocalFlowId flow) {
  const auto found = flows_.find(flow);
  if (found == flows_.end()) return;
  for (const SimFlowId part : found->second.parts) fabric_.Stop(part);
  flows_.erase(found);
  PostChange();
}

void SimHost::PostChange() {
  change_timer_ = loop_.After(Duration::zero(), [this] {
    if (on_change_) on_change_();
  });
}

std::span<const agent::FlowSample> SimHost::Flows() {
  samples_.clear();
  for (const auto& [local, flow] : flows_) {
    const fabric::FlowTuple& tuple = fabric_.TupleOf(flow.parts.front());
    agent::FlowSample& sample = samples_.emplace_back();
    sample.id = local;
    sample.job = flow.job;
    sample.source = tuple.source;
    sample.destination = tuple.destination;
    sample.source_port = tuple.source_port;
    sample.max_paths = static_cast<std::uint8_t>(flow.parts.size());
    sample.first_seen = flow.opened;
    sample.edges = flow.edges;
    for (const SimFlowId part : flow.parts) {
      const SimFabric::Progress progress = fabric_.ProgressOf(part);
      sample.remaining_bytes += progress.remaining_bytes;
      sample.sent_bytes += progress.sent_bytes;
      if (flow.parts.size() < 2) continue;
      sample.ports.push_back({.source_port = fabric_.TupleOf(part).source_port,
                              .outstanding_bytes = progress.remaining_bytes,
                              .sent_bytes = progress.sent_bytes});
    }
  }
  return samples_;
}

void SimHost::OnChange(std::function<void()> callback) { on_change_ = std::move(callback); }

Result<void> SimHost::Apply(const wire::PathSet& paths) {
  const auto found = flows_.find(paths.flow);
  if (found == flows_.end()) {
    return Fail(ErrorCode::kNotFound, fmt::format("flow {} has ended", paths.flow.value()));
  }
  const std::vector<SimFlowId>& parts = found->second.parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    fabric_.SetSourcePort(parts[i], paths.paths[i % paths.paths.size()].source_port);
  }
  return {};
}

Result<void> SimHost::Clear(wire::LocalFlowId flow) {
  const auto found = flows_.find(flow);
  if (found == flows_.end()) {
    return Fail(ErrorCode::kNotFound, fmt::format("flow {} has ended", flow.value()));
  }
  const Flow& own = found->second;
  for (std::size_t i = 0; i < own.parts.size(); ++i) {
    fabric_.SetSourcePort(own.parts[i], static_cast<std::uint16_t>(own.own_port + i));
  }
  return {};
}

Result<agent::ProbeMark> SimHost::Send(const agent::Probe& probe) {
  if (probe.source != address_) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not an address of this host", probe.source.ToString()));
  }
  const agent::ProbeMark mark{.head = ++probes_, .nonce = 1};
  auto reply = AnswerProbe(fabric_, probe);
  if (!reply) return mark;
  reply->mark = mark;
  const TimePoint due = loop_.Now() + 2 * probe.ttl * kHopDelay;
  const auto later = std::upper_bound(answers_.begin(), answers_.end(), due,
                                      [](TimePoint at, const Answer& a) { return at < a.due; });
  answers_.insert(later, {due, *reply});
  answer_timer_ = loop_.After(answers_.front().due - loop_.Now(), [this] { DeliverAnswers(); });
  return mark;
}

void SimHost::OnReply(std::function<void(const agent::ProbeReply&)> callback) {
  on_reply_ = std::move(callback);
}

void SimHost::DeliverAnswers() {
  answer_timer_.reset();
  while (!answers_.empty() && answers_.front().due <= loop_.Now()) {
    const agent::ProbeReply reply = answers_.front().reply;
    answers_.pop_front();
    if (on_reply_) on_reply_(reply);
  }
  if (answers_.empty()) return;
  answer_timer_ = loop_.After(answers_.front().due - loop_.Now(), [this] { DeliverAnswers(); });
}

}  // namespace espalier::sim
