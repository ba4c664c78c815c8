#include "controller/offline/damage/steered_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace espalier::offline {

using controller::Flow;
using controller::FlowSlot;
using controller::FlowStatus;
using controller::kNoPath;
using controller::Subflow;
using controller::SubflowId;

SteeredSets::SteeredSets(const fabric::Topology& topology, const Workload& workload,
                         const Options& options)
    : workload_(workload),
      state_(topology),
      learner_(state_.topology, state_.paths, state_.path_map, {}, metrics_),
      predictor_(state_, learner_, options_, metrics_),
      placement_(state_, learner_, options_, metrics_),
      failure_plans_(state_, learner_, metrics_) {
  for (const SimulatedFlow& flow : workload.flows()) Open(flow, options);
}

Result<std::unique_ptr<SteeredSets>> SteeredSets::Make(const fabric::Topology& topology,
                                                       const Workload& workload,
                                                       const Options& options) {
  std::unique_ptr<SteeredSets> sets(new SteeredSets(topology, workload, options));
  sets->placement_.PlaceNew(sets->predictor_, sets->options_.moves_per_start);
  sets->Recompute();
  for (std::uint32_t f = 0; f < workload.flows().size(); ++f) {
    const Flow& flow = sets->FlowAt(f);
    if (flow.status == FlowStatus::kLocal || sets->state_.HasPaths(flow)) continue;
    const SimulatedFlow& ends = workload.flows()[f];
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("no path leads from {} to {}", topology.node(ends.source).id,
                            topology.node(ends.destination).id));
  }
  return sets;
}

void SteeredSets::Open(const SimulatedFlow& simulated, const Options& options) {
  const fabric::Topology& topology = state_.topology;
  const auto address_of = [&](fabric::NodeId nic) {
    const auto& addresses = topology.node(nic).addresses;
    return addresses.empty() ? IpAddress() : addresses.front();
  };
  Flow flow;
  flow.agent = state_.agents.Intern(fabric::HostOf(topology.node(simulated.source)));
  auto& features = state_.agents.At(flow.agent).features;
  if (features.empty()) features.emplace_back("standby");
  flow.local = wire::LocalFlowId(slots_.size() + 1);
  flow.job = state_.flows.JobIndex(workload_.jobs()[simulated.job].id, flow.agent);
  flow.source_address = address_of(simulated.source);
  flow.destination_address = address_of(simulated.destination);
  flow.protocol = wire::kProtocolUdp;
  flow.key.destination_port = wire::kRoceV2Port;
  flow.max_paths = options.paths;
  flow.keeps_weights = options.keeps_weights;
  const FlowSlot slot = state_.flows.Open(std::move(flow));
  slots_.push_back(slot);
  placement_.Admit(slot, {});
}

void SteeredSets::CompleteRouting() {
  for (const FlowSlot slot : slots_) {
    const Flow& flow = state_.flows.At(slot);
    if (flow.status == FlowStatus::kLearning) state_.decisions.FinishPorts(slot, flow.reason, true);
  }
}

SetPath SteeredSets::MakePath(const Flow& flow, std::int32_t path, double share) const {
  SetPath made{.links = {}, .share = share};
  if (path == kNoPath) return made;
  state_.view.AppendHops(*state_.view.LeafOf(flow.source_leaf),
                         *state_.view.LeafOf(flow.destination_leaf), path, made.links);
  return made;
}

std::vector<std::vector<SetPath>> SteeredSets::Sets() const {
  std::vector<std::vector<SetPath>> sets(slots_.size());
  for (std::uint32_t f = 0; f < slots_.size(); ++f) {
    const Flow& flow = FlowAt(f);
    for (const Subflow& subflow : flow.subflows) {
      const auto path = state_.flow_paths.PathOf(subflow);
      ESPALIER_CHECK(path.has_value());
      sets[f].push_back(MakePath(flow, path->value(), PartOf(flow, subflow)));
    }
    if (sets[f].empty()) sets[f].emplace_back();  // within one leaf
  }
  return sets;
}

std::vector<std::vector<SetPath>> SteeredSets::StandbySets() const {
  std::vector<std::vector<SetPath>> sets(slots_.size());
  for (std::uint32_t f = 0; f < slots_.size(); ++f) {
    const Flow& flow = FlowAt(f);
    for (const Subflow& subflow : flow.subflows) {
      sets[f].push_back(MakePath(flow, subflow.standby_path, PartOf(flow, subflow)));
    }
    if (sets[f].empty()) sets[f].emplace_back();
  }
  return sets;
}

std::size_t SteeredSets::CountWithoutStandby() const {
  std::size_t without = 0;
  for (const FlowSlot slot : slots_) {
    for (const Subflow& subflow : state_.flows.At(slot).subflows) {
      without += subflow.standby_path == kNoPath ? 1 : 0;
    }
  }
  return without;
}

void SteeredSets::Prepare() {
  // Ten ticks look at all flows; where standbys are missing after this many, there are none.
  constexpr int kTicksInVain = 20;
  std::size_t missing = CountWithoutStandby();
  for (int in_vain = 0; missing > 0 && in_vain < kTicksInVain;) {
    placement_.standbys().Tick();
    const std::size_t before = std::exchange(missing, CountWithoutStandby());
    in_vain = missing < before ? 0 : in_vain + 1;
  }
  constexpr std::size_t kSubflowsAtOnce = 10'000;
  while (failure_plans_.RefreshNext(kSubflowsAtOnce)) {
  }
}

std::size_t SteeredSets::GoToStandbys(fabric::LinkId link) {
  std::size_t moved = 0;
  std::vector<std::uint32_t> hops;
  for (const FlowSlot slot : slots_) {
    const Flow& flow = state_.flows.At(slot);
    for (std::uint32_t i = 0; i < flow.subflows.size(); ++i) {
      const Subflow& subflow = flow.subflows[i];
      const auto path = state_.flow_paths.PathOf(subflow);
      if (!path || subflow.standby_path == kNoPath) continue;
      const bool is_over =
          std::ranges::any_of(state_.PathsOf(flow)[path->Index()].hops,
                              [link](fabric::DirectedLink hop) { return hop.link == link; });
      if (!is_over) continue;
      state_.decisions.Place(slot, i, subflow.standby_path);
      ++moved;
    }
  }
  return moved;
}

// As ActionEffects and the loop of the controller do it, without forests, probes and pushes.
std::size_t SteeredSets::HandleFailure(fabric::LinkId link, std::size_t moved) {
  if (!state_.topology.SetLinkState(link, fabric::LinkState::kDown)) return 0;
  state_.view.Refresh();
  const auto lost = state_.flow_paths.HandleLinkChange();
  const std::vector<SubflowId> affected(lost.begin(), lost.end());
  const std::vector<fabric::LinkId> links{link};
  std::size_t by_plan = 0;
  if (const auto domain = failure_plans_.Find(links)) {
    by_plan =
        placement_.TakeFailurePlan(failure_plans_, *domain, affected, [](controller::AgentId) {})
            .size();
  }
  placement_.HandleLinkChange();
  if (moved > 0) placement_.Relieve(options_.moves_per_start * moved);
  CompleteRouting();
  return by_plan;
}

void SteeredSets::Recompute() {
  placement_.what_if().Recompute({}, false);
  CompleteRouting();
  // The first call notes that there is something to divide, and the second one divides.
  constexpr auto kLater = std::chrono::minutes(10);
  for (int call = 0; call < 2; ++call) {
    clock_ += kLater;
    placement_.BalanceSplits(clock_);
  }
}

std::vector<controller::Commodity> SteeredSets::Commodities() const {
  std::vector<controller::Commodity> commodities;
  for (const SimulatedFlow& flow : workload_.flows()) {
    commodities.push_back({.source = *state_.view.LeafOf(flow.source_attachment.leaf),
                           .destination = *state_.view.LeafOf(flow.destination_attachment.leaf),
                           .job = flow.job});
  }
  return commodities;
}

std::int32_t SteeredSets::PathOf(std::uint32_t flow) const {
  const auto& subflows = FlowAt(flow).subflows;
  return subflows.empty() ? kNoPath : state_.flow_paths.PathOf(*subflows.front().id);
}

}  // namespace espalier::offline
