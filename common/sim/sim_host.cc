#include "common/sim/sim_host.h"

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

// The address of the interface through which a packet comes in over this direction.
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
  if (probe.ttl == 1) {
    for (const fabric::DirectedLink direction : topology.Outgoing(*source)) {
      if (topology.LeavesHost(direction)) reply.responder = EntryAddress(topology, direction);
    }
  } else {
    const SimFabric::Route route = fabric.Trace(TupleOf(probe));
    const std::size_t hop = probe.ttl - 2U;
    if (hop < route.hops.size()) {
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
  const fabric::FlowTuple tuple{.source = address_,
                                .destination = traffic.destination,
                                .source_port = traffic.source_port,
                                .destination_port = wire::kRoceV2Port};
  flow.id = fabric_.Start(tuple, traffic.bytes, [this, local, done = std::move(traffic.done)] {
    if (!flows_.contains(local)) return;  // closed while this was on its way
    Close(local);
    if (done) done();
  });
  flows_.emplace(local, std::move(flow));
  PostChange();
  return local;
}

void SimHost::Close(wire::LocalFlowId flow) {
  const auto found = flows_.find(flow);
  if (found == flows_.end()) return;
  fabric_.Stop(found->second.id);
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
    const SimFabric::Progress progress = fabric_.ProgressOf(flow.id);
    const fabric::FlowTuple& tuple = fabric_.TupleOf(flow.id);
    agent::FlowSample& sample = samples_.emplace_back();
    sample.id = local;
    sample.job = flow.job;
    sample.source = tuple.source;
    sample.destination = tuple.destination;
    sample.source_port = tuple.source_port;
    sample.first_seen = flow.opened;
    sample.remaining_bytes = progress.remaining_bytes;
    sample.sent_bytes = progress.sent_bytes;
  }
  return samples_;
}

void SimHost::OnChange(std::function<void()> callback) { on_change_ = std::move(callback); }

Result<void> SimHost::Apply(const wire::PathSet& paths) {
  const auto found = flows_.find(paths.flow);
  if (found == flows_.end()) {
    return Fail(ErrorCode::kNotFound, fmt::format("flow {} has ended", paths.flow.value()));
  }
  fabric_.SetSourcePort(found->second.id, paths.paths.front().source_port);
  return {};
}

Result<void> SimHost::Clear(wire::LocalFlowId flow) {
  const auto found = flows_.find(flow);
  if (found == flows_.end()) {
    return Fail(ErrorCode::kNotFound, fmt::format("flow {} has ended", flow.value()));
  }
  fabric_.SetSourcePort(found->second.id, found->second.own_port);
  return {};
}

Result<void> SimHost::Send(const agent::Probe& probe) {
  if (probe.source != address_) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not an address of this host", probe.source.ToString()));
  }
  const auto reply = AnswerProbe(fabric_, probe);
  if (!reply) return {};
  const TimePoint due = loop_.Now() + 2 * probe.ttl * kHopDelay;
  const auto later = std::upper_bound(answers_.begin(), answers_.end(), due,
                                      [](TimePoint at, const Answer& a) { return at < a.due; });
  answers_.insert(later, {due, *reply});
  answer_timer_ = loop_.After(answers_.front().due - loop_.Now(), [this] { DeliverAnswers(); });
  return {};
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
