#include "controller/forests/residual_capacity.h"

#include <algorithm>
#include <utility>

#include "controller/routing/model/assignment.h"

namespace espalier::controller {
namespace {

// The residual capacity of a link is a multiple of this fraction of its rate.
constexpr std::int64_t kParts = 12;

using Units = std::vector<std::int64_t>;  // by directed link; a flow is kLoadUnit units

// Adds the load on hosts' only links; OnlineAssigner knows the load on those that paths consist of.
void AddHostLinks(const State& state, Units& units) {
  for (const FlowSlot slot : state.flows.All()) {
    const Flow& flow = state.flows.At(slot);
    if (!state.HasPaths(flow)) continue;
    for (const auto& [nic, sends] :
         {std::pair(flow.key.source, true), std::pair(flow.key.destination, false)}) {
      const auto attachment = state.paths.FindAttachment(nic);
      const auto link = sends ? attachment->uplink : attachment->Downlink();
      if (link) units[link->Index()] += kLoadUnit;
    }
  }
}

void TakeOutOwn(const State& state, const TreeJob& job, Units& units) {
  if (!job.active) return;
  for (const EdgeName& name : job.active->reserved) {
    const EdgeReservation& edge = *state.edges.Find(name);
    for (const auto hop : state.PathOf(edge).hops) units[hop.Index()] -= edge.load;
  }
}

void FollowPlans(const State& state, FailurePlans& failure_plans, LinkOrSwitch failed,
                 Units& units) {
  failure_plans.ForEachBackupPath(
      failed, [&](SubflowId subflow, std::int32_t from, std::int32_t to) {
        const Flow& flow = state.flows.At(state.flow_paths.FlowOf(subflow));
        const std::int64_t share =
            ShareOf(flow, flow.subflows[state.flow_paths.OwnerOf(subflow).index]);
        const auto paths = state.PathsOf(flow);
        for (const auto hop : paths[static_cast<std::size_t>(from)].hops) {
          units[hop.Index()] -= share;
        }
        for (const auto hop : paths[static_cast<std::size_t>(to)].hops) {
          units[hop.Index()] += share;
        }
      });
}

}  // namespace

std::vector<BitsPerSecond> ResidualCapacity(const State& state, FailurePlans& failure_plans,
                                            const TreeJob* job,
                                            std::optional<LinkOrSwitch> failed) {
  Units units(2 * state.topology.links().size());
  AddHostLinks(state, units);
  const std::vector<std::int64_t> loads = state.flow_paths.assigner().Loads();
  for (std::size_t i = 0; i < loads.size(); ++i) units[i] += loads[i];
  if (job != nullptr) TakeOutOwn(state, *job, units);
  if (failed) FollowPlans(state, failure_plans, *failed, units);
  if (std::all_of(units.begin(), units.end(), [](std::int64_t load) { return load == 0; })) {
    return {};
  }
  std::vector<BitsPerSecond> available(units.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::int64_t rate =
        state.topology.link(fabric::DirectedLink::FromIndex(i).link).rate.value;
    const double load = static_cast<double>(units[i]) / static_cast<double>(kLoadUnit) *
                        static_cast<double>(state.view.unit_bps()) / static_cast<double>(rate);
    const auto parts = static_cast<std::int64_t>(static_cast<double>(kParts) / (1 + load) + 1e-9);
    available[i].value = units[i] <= 0 ? rate : rate / kParts * std::max<std::int64_t>(parts, 1);
  }
  return available;
}

std::uint64_t DigestOf(const std::vector<BitsPerSecond>& rates) {
  constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15;
  std::uint64_t digest = rates.size();
  for (const BitsPerSecond rate : rates) {
    digest = (digest ^ static_cast<std::uint64_t>(rate.value)) * kOdd;
    digest ^= digest >> 32U;
  }
  return digest;
}

}  // namespace espalier::controller
