#include "controller/offline/replay/steered_flows.h"

#include <utility>

#include "controller/placement/loads/load_summary.h"

namespace espalier::offline {

using controller::Assignment;
using controller::ComputeScore;
using controller::CurrentPaths;
using controller::DescribeElephants;
using controller::Elephants;
using controller::FlowSlot;
using controller::IsBetter;
using controller::Score;
using controller::StartPredictor;

SteeredFlows::SteeredFlows(const fabric::Topology& topology, bool plan_ahead)
    : options_{.plan_ahead = plan_ahead},
      state_(topology),
      learner_(state_.topology, state_.paths, state_.path_map, {}, metrics_),
      predictor_(state_, learner_, options_, metrics_),
      placement_(state_, learner_, options_, metrics_),
      assigner_(state_.view),
      rates_(state_.view) {}

SteeredFlows::Opened SteeredFlows::Open(const SimulatedFlow& simulated, const std::string& job,
                                        std::uint64_t serial, TimePoint now) {
  const fabric::Topology& topology = state_.topology;
  const fabric::Node& source = topology.node(simulated.source);
  controller::Flow flow;
  flow.agent = state_.agents.Intern(fabric::HostOf(source));
  flow.local = wire::LocalFlowId(serial);
  flow.job = state_.flows.JobIndex(job, flow.agent);
  flow.source_address = source.addresses.front();
  flow.destination_address = topology.node(simulated.destination).addresses.front();
  flow.protocol = wire::kProtocolUdp;
  flow.key.destination_port = wire::kRoceV2Port;
  const FlowSlot slot = state_.flows.Open(std::move(flow));
  placement_.Admit(slot, {});
  const std::vector<FlowSlot> opened{slot};
  predictor_.HandleOpened(opened);
  predictor_.HandleBusy(slot, now);
  const auto placed = placement_.PlaceNew(predictor_, options_.moves_per_start);
  return {.slot = slot,
          .has_path = !state_.flows.At(slot).subflows.empty(),
          .planned = static_cast<std::size_t>(placed.planned)};
}

void SteeredFlows::Close(FlowSlot slot, TimePoint now) {
  predictor_.HandleClosed(slot, now);
  placement_.Release(slot);
  state_.flows.Close(slot);
}

void SteeredFlows::TakeProgress(FlowSlot slot, std::uint64_t remaining_bytes,
                                std::uint64_t sent_bytes, TimePoint now) {
  const controller::Flow& flow = state_.flows.At(slot);
  const std::vector<wire::FlowProgress> progress{
      {.id = flow.local, .remaining_bytes = remaining_bytes, .sent_bytes = sent_bytes}};
  predictor_.HandleProgress(state_.flows.TakeProgress(flow.agent, progress, now).due, now);
}

std::optional<std::int32_t> SteeredFlows::PathOf(FlowSlot slot) const {
  const controller::Flow& flow = state_.flows.At(slot);
  if (flow.subflows.empty()) return std::nullopt;
  const auto path = state_.flow_paths.PathOf(flow.subflows.front());
  return path ? std::optional(path->value()) : std::nullopt;
}

std::optional<TimePoint> SteeredFlows::NextStartOf(const std::string& job) const {
  for (const StartPredictor::JobView& view : predictor_.Jobs()) {
    if (view.job == job && view.next_start) return view.next_start;
  }
  return std::nullopt;
}

std::optional<TimePoint> SteeredFlows::EndOf(FlowSlot slot) const {
  const auto forecast = predictor_.EndOf(slot);
  return forecast ? std::optional(forecast->expected) : std::nullopt;
}

SteeredFlows::Comparison SteeredFlows::CompareWithFromScratch() {
  std::vector<FlowSlot> slots = state_.flows.All();
  std::erase_if(slots, [&](FlowSlot slot) { return !state_.HasPaths(state_.flows.At(slot)); });
  const Elephants elephants = DescribeElephants(state_, slots);
  const Assignment present = CurrentPaths(state_, elephants);
  const Assignment& fresh = assigner_.Optimal(elephants.commodities);
  if (fresh.max_load < present.max_load) return {};
  const auto score = [&](const Assignment& assignment) {
    Score of =
        ComputeScore(elephants.commodities, rates_.Predict(elephants.commodities, assignment), {});
    of.total_rate = 0;
    return of;
  };
  const Score of_present = score(present);
  return {.least_load = true, .as_good = !IsBetter(score(fresh), of_present)};
}

}  // namespace espalier::offline
