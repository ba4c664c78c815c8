#include "controller/offline/simulation/assignment_router.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace espalier::offline {

using controller::Assignment;
using controller::Commodity;
using controller::FabricView;
using controller::kNoPath;

AssignmentRouter::AssignmentRouter(const Workload& workload, FabricView& view,
                                   std::uint32_t subflows, Assign assign)
    : view_(view), assign_(std::move(assign)) {
  for (const SimulatedFlow& flow : workload.flows()) {
    const auto source = view.LeafOf(flow.source_attachment.leaf);
    const auto destination = view.LeafOf(flow.destination_attachment.leaf);
    ESPALIER_CHECK(source && destination);
    commodities_.push_back(
        {.source = *source,
         .destination = *destination,
         .job = flow.job,
         .subflows = subflows,
         .source_link = controller::HostLink(flow.source_attachment.uplink),
         .destination_link = controller::HostLink(flow.destination_attachment.Downlink())});
  }
}

std::vector<std::vector<PathShare>> AssignmentRouter::Route(std::span<const std::uint32_t> live) {
  std::vector<Commodity> commodities;
  commodities.reserve(live.size());
  for (const std::uint32_t flow : live) commodities.push_back(commodities_[flow]);
  const Assignment assignment = assign_(commodities, live);
  std::vector<std::vector<PathShare>> routes;
  routes.reserve(live.size());
  for (std::size_t i = 0; i < live.size(); ++i) {
    routes.push_back(PathsOf(commodities[i], assignment.PathsOf(i)));
  }
  return routes;
}

// Subflows that share a path are one part of the flow.
std::vector<PathShare> AssignmentRouter::PathsOf(const Commodity& commodity,
                                                 std::span<const std::int32_t> paths) const {
  if (commodity.source == commodity.destination) return {PathShare{}};
  std::vector<std::int32_t> sorted(paths.begin(), paths.end());
  std::ranges::sort(sorted);
  std::vector<PathShare> shares;
  const double share = 1.0 / static_cast<double>(sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] == kNoPath) return {};
    if (i > 0 && sorted[i] == sorted[i - 1]) {
      shares.back().share += share;
      continue;
    }
    shares.push_back({{}, share});
    view_.AppendHops(commodity.source, commodity.destination, sorted[i], shares.back().links);
  }
  return shares;
}

}  // namespace espalier::offline
