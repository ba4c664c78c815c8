#include "common/sim/sim_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace espalier::sim {

using fabric::DirectedLink;
using fabric::LinkState;
using fabric::NodeId;

namespace {

// A flow with fewer bits left has ended; rounding may leave a fraction of a bit.
constexpr double kNothing = 0.5;

std::uint64_t WholeBytes(double bits) { return static_cast<std::uint64_t>(std::llround(bits / 8)); }

}  // namespace

SimFabric::SimFabric(EventLoop& loop, fabric::Topology topology)
    : loop_(loop),
      topology_(std::move(topology)),
      paths_(topology_),
      hashes_(topology_.nodes().size()),
      capacities_bps_(2 * topology_.links().size()),
      advanced_to_(loop.Now()) {
  for (std::size_t i = 0; i < capacities_bps_.size(); ++i) {
    const auto link = DirectedLink::FromIndex(i).link;
    capacities_bps_[i] = static_cast<double>(topology_.link(link).rate.value);
  }
}

Result<std::unique_ptr<SimFabric>> SimFabric::Build(EventLoop& loop, fabric::Topology topology) {
  std::unique_ptr<SimFabric> fabric(new SimFabric(loop, std::move(topology)));
  const std::span<const fabric::Node> nodes = fabric->topology_.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool is_switch = nodes[i].kind == fabric::NodeKind::kSwitch && nodes[i].host.empty();
    const bool chooses = fabric->topology_.HasSeveralUplinks(NodeId(static_cast<std::int32_t>(i)));
    if (!is_switch && !chooses) continue;
    const std::string_view kind = is_switch ? "switch" : "NIC";
    if (!nodes[i].ecmp) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} {}: `{}` is missing (the simulation needs the hash of each {})",
                              kind, nodes[i].id, is_switch ? "ecmp" : "uplink_hash",
                              is_switch ? "switch" : "NIC with several uplinks"));
    }
    auto hash = fabric::MakeHashOf(nodes[i]);
    if (!hash) {
      return Fail(hash.error().code,
                  fmt::format("{} {}: {}", kind, nodes[i].id, hash.error().message));
    }
    fabric->hashes_[i] = std::move(*hash);
  }
  return fabric;
}

std::vector<DirectedLink> SimFabric::Members(NodeId at, NodeId destination_leaf) {
  std::vector<DirectedLink> members;
  for (const fabric::Path& path : paths_.Between(at, destination_leaf)) {
    const DirectedLink hop = path.hops.front();
    if (members.empty() || hop != members.back()) members.push_back(hop);
  }
  std::erase_if(members, [&](DirectedLink hop) {
    return topology_.link(hop.link).state == LinkState::kDown;
  });
  // Switches order their next hops as in the topology file.
  std::ranges::sort(members, {}, &DirectedLink::Index);
  members.erase(std::unique(members.begin(), members.end()), members.end());
  std::vector<DirectedLink> weighted;
  for (const DirectedLink member : members) {
    weighted.insert(weighted.end(), static_cast<std::size_t>(topology_.WeightOf(member)), member);
  }
  return weighted;
}

SimFabric::Route SimFabric::Trace(const fabric::FlowTuple& tuple) {
  const auto source = topology_.FindNic(tuple.source);
  const auto destination = topology_.FindNic(tuple.destination);
  ESPALIER_CHECK(source && destination, "source={} destination={}", tuple.source.ToString(),
                 tuple.destination.ToString());
  const auto from = paths_.FindAttachment(*source);
  const auto to = paths_.FindAttachment(*destination);
  ESPALIER_CHECK(from && to, "source={} destination={}", tuple.source.ToString(),
                 tuple.destination.ToString());
  Route route;
  const auto is_down = [&](const fabric::Attachment& nic) {
    return nic.uplink && topology_.link(nic.uplink->link).state == LinkState::kDown;
  };
  if (is_down(*from)) return route;
  for (NodeId at = from->leaf; at != to->leaf; at = topology_.To(route.hops.back())) {
    const std::vector<DirectedLink> members = Members(at, to->leaf);
    if (members.empty()) return route;
    route.hops.push_back(members[hashes_[at.Index()]->Choose(tuple, members.size())]);
  }
  route.arrives = !is_down(*to);
  return route;
}

std::optional<DirectedLink> SimFabric::Uplink(const IpAddress& nic) const {
  const auto node = topology_.FindNic(nic);
  ESPALIER_CHECK(node, "nic={}", nic.ToString());
  const auto attachment = paths_.FindAttachment(*node);
  ESPALIER_CHECK(attachment, "nic={}", nic.ToString());
  return attachment->uplink;
}

std::optional<DirectedLink> SimFabric::Downlink(const IpAddress& nic) const {
  const auto link = Uplink(nic);
  if (!link) return std::nullopt;
  return DirectedLink{link->link, !link->forward};
}

Transit SimFabric::Carry(const fabric::FlowTuple& tuple, std::uint8_t dscp) {
  const Route route = Trace(tuple);
  if (!route.arrives) return {};
  std::vector<DirectedLink> links;
  if (const auto uplink = Uplink(tuple.source)) links.push_back(*uplink);
  links.insert(links.end(), route.hops.begin(), route.hops.end());
  if (const auto downlink = Downlink(tuple.destination)) links.push_back(*downlink);
  return troubles_.Carry(links, tuple.protocol, dscp);
}

void SimFabric::UpdateRoute(Flow& flow) {
  const Route route = Trace(flow.tuple);
  flow.arrives = route.arrives;
  flow.links.clear();
  const auto add = [&](std::optional<DirectedLink> link) {
    if (link) flow.links.push_back(static_cast<std::uint32_t>(link->Index()));
  };
  add(Uplink(flow.tuple.source));
  for (const DirectedLink hop : route.hops) add(hop);
  if (route.arrives) add(Downlink(flow.tuple.destination));
}

SimFlowId SimFabric::Start(const fabric::FlowTuple& tuple, std::uint64_t bytes,
                           std::function<void()> done) {
  const SimFlowId id(next_flow_++);
  Flow flow;
  flow.tuple = tuple;
  flow.bits = 8 * static_cast<double>(bytes);
  flow.done = std::move(done);
  UpdateRoute(flow);
  AdvanceTo(loop_.Now());
  flows_.emplace(id, std::move(flow));
  RequestUpdate();
  return id;
}

void SimFabric::Continue(SimFlowId id, std::uint64_t bytes, std::function<void()> done) {
  AdvanceTo(loop_.Now());
  Flow& flow = flows_.at(id);
  ESPALIER_CHECK(flow.bits - flow.sent_bits < kNothing, "flow={}", id.value());
  flow.sent_bits = flow.bits;
  flow.bits += 8 * static_cast<double>(bytes);
  flow.done = std::move(done);
  RequestUpdate();
}

void SimFabric::Stop(SimFlowId flow) {
  AdvanceTo(loop_.Now());
  if (flows_.erase(flow) > 0) RequestUpdate();
}

void SimFabric::SetSourcePort(SimFlowId id, std::uint16_t port) {
  Flow& flow = flows_.at(id);
  if (flow.tuple.source_port == port) return;
  AdvanceTo(loop_.Now());
  flow.tuple.source_port = port;
  UpdateRoute(flow);
  RequestUpdate();
}

void SimFabric::SetLink(fabric::LinkId link, LinkState state) {
  if (!topology_.SetLinkState(link, state)) return;
  AdvanceTo(loop_.Now());
  for (auto& [id, flow] : flows_) UpdateRoute(flow);
  RequestUpdate();
}

Result<void> SimFabric::SetHashSeed(NodeId node, std::uint64_t seed) {
  const auto& spec = topology_.node(node).ecmp;
  ESPALIER_CHECK(spec && hashes_[node.Index()], "node={}", topology_.node(node).id);
  fabric::Node changed = topology_.node(node);
  changed.ecmp->seed = seed;
  auto hash = fabric::MakeHashOf(changed);
  if (!hash) return Propagate(hash);
  AdvanceTo(loop_.Now());
  hashes_[node.Index()] = std::move(*hash);
  for (auto& [id, flow] : flows_) UpdateRoute(flow);
  RequestUpdate();
  return {};
}

SimFabric::Progress SimFabric::ProgressOf(SimFlowId id) const {
  const Flow& flow = flows_.at(id);
  const double sent_bits = SentBits(flow, loop_.Now());
  return {.sent_bytes = WholeBytes(sent_bits),
          .remaining_bytes = WholeBytes(flow.bits - sent_bits),
          .rate_bps = flow.rate_bps,
          .stands_still = !flow.arrives};
}

std::vector<int> SimFabric::LinkFlows() {
  std::vector<int> counts(capacities_bps_.size(), 0);
  for (const auto& [id, flow] : flows_) {
    if (flow.sent_bits >= flow.bits) continue;
    for (const std::uint32_t link : flow.links) {
      if (topology_.IsFabricLink(DirectedLink::FromIndex(link).link)) ++counts[link];
    }
  }
  return counts;
}

void SimFabric::RequestUpdate() {
  if (!update_) update_ = loop_.After(Duration::zero(), [this] { Update(); });
}

double SimFabric::SentBits(const Flow& flow, TimePoint now) const {
  const double seconds = SecondsOf(now - advanced_to_);
  return std::min(flow.bits, flow.sent_bits + flow.rate_bps * seconds);
}

void SimFabric::AdvanceTo(TimePoint now) {
  if (now == advanced_to_) return;
  for (auto& [id, flow] : flows_) flow.sent_bits = SentBits(flow, now);
  advanced_to_ = now;
}

void SimFabric::Update() {
  update_.reset();
  AdvanceTo(loop_.Now());
  std::vector<Flow*> running;
  std::vector<std::uint32_t> path_begin{0};
  std::vector<std::uint32_t> path_links;
  for (auto& [id, flow] : flows_) {
    flow.rate_bps = 0;
    if (flow.bits - flow.sent_bits < kNothing) {
      flow.sent_bits = flow.bits;
      if (flow.done) loop_.Post(std::exchange(flow.done, nullptr));
    } else if (flow.arrives) {
      running.push_back(&flow);
      path_links.insert(path_links.end(), flow.links.begin(), flow.links.end());
      path_begin.push_back(static_cast<std::uint32_t>(path_links.size()));
    }
  }
  const auto rates = max_min_.Solve(capacities_bps_, path_begin, path_links, 0);
  double soonest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < running.size(); ++i) {
    running[i]->rate_bps = rates[i];
    soonest = std::min(soonest, (running[i]->bits - running[i]->sent_bits) / rates[i]);
  }
  next_end_.reset();
  if (!std::isfinite(soonest)) return;
  // Rounded up, so that the flow has ended when the timer fires.
  const Duration wait(static_cast<Duration::rep>(std::min(std::ceil(soonest * 1e9), 1e18)));
  next_end_ = loop_.After(wait, [this] { Update(); });
}

}  // namespace espalier::sim
