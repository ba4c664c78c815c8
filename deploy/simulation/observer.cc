#include "deploy/simulation/observer.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::simulation {
namespace {

std::string_view Sentence(Fault fault) {
  switch (fault) {
    case Fault::kStandsStill:
      return "stands still although the fabric has a path for it";
    case Fault::kUnroutable:
      return "has no decided path although there is a usable one";
    case Fault::kOtherPath:
      return "takes another path than the controller decided";
  }
  return "";
}

}  // namespace

std::string_view FaultName(Fault fault) {
  switch (fault) {
    case Fault::kStandsStill:
      return "stands_still";
    case Fault::kUnroutable:
      return "unroutable";
    case Fault::kOtherPath:
      return "other_path";
  }
  return "";
}

Observer::Observer(Cluster& cluster, const JobPlayer& player)
    : cluster_(cluster), player_(player), paths_(cluster.fabric().topology()) {}

void Observer::LookAtLinks() {
  const std::vector<int> flows = cluster_.fabric().LinkFlows();
  const auto most = std::ranges::max_element(flows);
  if (most == flows.end() || *most <= most_loaded_.connections) return;
  const auto direction =
      fabric::DirectedLink::FromIndex(static_cast<std::size_t>(most - flows.begin()));
  most_loaded_ = {cluster_.fabric().topology().DirectionName(direction), *most,
                  cluster_.world().Now()};
}

void Observer::LookAtPaths() {
  last_look_ = cluster_.world().Now();
  std::array<Since, kFaults> since;
  for (const Cluster::FlowRef& flow : player_.Flows()) {
    const auto faults = FaultsOf(flow);
    for (std::size_t i = 0; i < kFaults; ++i) {
      if (!faults[i]) continue;
      const FlowKey key{flow.host, flow.flow.value()};
      const auto before = since_[i].find(key);
      const TimePoint begin = before == since_[i].end() ? last_look_ : before->second;
      since[i][key] = begin;
      records_[i].longest = std::max(records_[i].longest, last_look_ - begin);
    }
  }
  since_ = std::move(since);
  for (std::size_t i = 0; i < kFaults; ++i) {
    records_[i].most = std::max(records_[i].most, since_[i].size());
    records_[i].lasting = static_cast<std::size_t>(std::ranges::count_if(
        since_[i], [&](const auto& entry) { return last_look_ - entry.second >= kTolerated; }));
  }
}

std::span<const fabric::Path> Observer::PathsOf(const Cluster::FlowRef& flow) {
  const sim::SimFlowId part = cluster_.host(flow.host).FabricFlow(flow.flow);
  const fabric::Topology& topology = cluster_.fabric().topology();
  const fabric::FlowTuple& tuple = cluster_.fabric().TupleOf(part);
  return paths_.Between(paths_.FindAttachment(*topology.FindNic(tuple.source))->leaf,
                        paths_.FindAttachment(*topology.FindNic(tuple.destination))->leaf);
}

std::array<bool, kFaults> Observer::FaultsOf(const Cluster::FlowRef& flow) {
  std::array<bool, kFaults> faults{};
  const auto is_up = [&](const fabric::Path& path) {
    return std::ranges::none_of(path.hops, [&](fabric::DirectedLink hop) {
      return cluster_.fabric().topology().link(hop.link).state == fabric::LinkState::kDown;
    });
  };
  faults[Index(Fault::kStandsStill)] =
      cluster_.StandsStill(flow) && std::ranges::any_of(PathsOf(flow), is_up);
  if (!cluster_.has_controller() || !cluster_.has_agent(flow.host)) return faults;
  const controller::State& state = cluster_.controller().state();
  const auto agent = state.agents.FindByName(cluster_.HostName(flow.host));
  const auto slot = agent ? state.flows.Find(*agent, flow.flow) : std::nullopt;
  if (!slot) return faults;
  const controller::Flow& known = state.flows.At(*slot);
  if (known.status == controller::FlowStatus::kUnroutable) {
    faults[Index(Fault::kUnroutable)] = std::ranges::any_of(
        PathsOf(flow),
        [&](const fabric::Path& path) { return fabric::IsUsable(state.topology, path); });
  }
  if (known.status != controller::FlowStatus::kRouted) return faults;
  const auto& parts = cluster_.host(flow.host).FabricFlows(flow.flow);
  for (const controller::Subflow& subflow : known.subflows) {
    const auto path = state.flow_paths.PathOf(subflow);
    if (!path || subflow.port == 0) continue;
    const fabric::Path& decided = state.PathsOf(known)[path->Index()];
    // The switch before a dead link leads around it, and packets that are dropped stand still.
    if (!is_up(decided)) continue;
    const bool takes_it = std::ranges::any_of(parts, [&](sim::SimFlowId part) {
      const fabric::FlowTuple& tuple = cluster_.fabric().TupleOf(part);
      if (tuple.source_port != subflow.port) return false;
      const sim::SimFabric::Route route = cluster_.fabric().Trace(tuple);
      return !route.arrives || std::ranges::equal(route.hops, decided.hops);
    });
    if (!takes_it) faults[Index(Fault::kOtherPath)] = true;
  }
  return faults;
}

std::string Observer::NameOf(const FlowKey& flow) const {
  return fmt::format("{}:{}", cluster_.HostName(flow.first), flow.second);
}

std::vector<std::string> Observer::Violations() const {
  std::vector<std::string> violations;
  for (std::size_t i = 0; i < kFaults; ++i) {
    for (const auto& [flow, begin] : since_[i]) {
      if (last_look_ - begin < kTolerated) continue;
      violations.push_back(
          fmt::format("flow {} {}", NameOf(flow), Sentence(static_cast<Fault>(i))));
    }
  }
  return violations;
}

}  // namespace espalier::simulation
