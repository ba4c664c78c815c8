#include "tests/studies/damage/damaged_fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "common/fabric/paths.h"

namespace espalier::offline {

using fabric::LinkId;
using fabric::NodeId;
using fabric::Topology;

namespace {

using Random = std::mt19937_64;

// NICs that are attached to one leaf, and this leaf.
struct Nic {
  NodeId node;
  NodeId leaf;
};

std::vector<Nic> ListNics(const Topology& topology) {
  const fabric::PathTable paths(topology);
  std::vector<Nic> nics;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    if (!topology.IsFlowEndpoint(node)) continue;
    if (const auto found = paths.FindAttachment(node)) nics.push_back({node, found->leaf});
  }
  return nics;
}

template <typename Item>
void Shuffle(std::vector<Item>& items, Random& random) {
  for (std::size_t i = items.size(); i-- > 1;) std::swap(items[i], items[random() % (i + 1)]);
}

Job MakeJob(std::string name, std::vector<Exchange::Flow> flows) {
  Job job{.id = std::move(name), .model = {}, .epochs = 1, .phases = {{}}};
  job.phases[0].exchanges.push_back({.flows = std::move(flows), .round_bytes = 1});
  return job;
}

// The end of a link that is a leaf with NICs, if the other end is a switch above it.
std::optional<NodeId> LeafBelow(const Topology& topology, const fabric::PathTable& paths,
                                LinkId link) {
  if (!topology.IsSwitchToSwitch(link)) return std::nullopt;
  const fabric::Link& ends = topology.link(link);
  const int a = paths.Tier(ends.a);
  const int b = paths.Tier(ends.b);
  if (a == 0 && b > 0) return ends.a;
  if (b == 0 && a > 0) return ends.b;
  return std::nullopt;
}

}  // namespace

std::string_view DamageName(Damage damage) {
  switch (damage) {
    case Damage::kNone:
      return "none";
    case Damage::kDead:
      return "dead";
    case Damage::kHalfRate:
      return "half rate";
  }
  return "";
}

Result<LinkId> FindUplink(const Topology& topology, std::string_view name) {
  const fabric::PathTable paths(topology);
  if (!name.empty()) {
    const auto link = topology.FindLink(name);
    if (!link) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("--link: there is no link {}", name));
    }
    const bool is_up = topology.link(*link).state == fabric::LinkState::kUp;
    if (is_up && LeafBelow(topology, paths, *link)) return *link;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--link: {} is no link in use from a leaf up to another switch", name));
  }
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const LinkId link(static_cast<std::int32_t>(i));
    const bool is_up = topology.link(link).state == fabric::LinkState::kUp;
    if (is_up && LeafBelow(topology, paths, link)) return link;
  }
  return Fail(ErrorCode::kInvalidArgument,
              "the topology has no link in use between a leaf and a switch above it");
}

Topology BuildDamaged(const Topology& topology, LinkId link, Damage damage) {
  fabric::TopologySpec spec = topology.Spec();
  fabric::Link& damaged = spec.links[link.Index()];
  if (damage == Damage::kDead) damaged.state = fabric::LinkState::kDown;
  if (damage == Damage::kHalfRate) damaged.rate.value = std::max(damaged.rate.value / 2, 1L);
  auto built = Topology::Build(std::move(spec));
  ESPALIER_CHECK(built.has_value());
  return std::move(*built);
}

// Draws targets, then exchanges those on their sender's own leaf with others for which both are on
// another leaf.
Result<std::vector<Job>> MakePermutation(const Topology& topology, std::uint64_t seed) {
  const std::vector<Nic> nics = ListNics(topology);
  Random random(seed);
  std::vector<Nic> targets = nics;
  Shuffle(targets, random);
  for (std::size_t i = 0; i < nics.size(); ++i) {
    if (targets[i].leaf != nics[i].leaf) continue;
    const std::size_t first = random() % nics.size();
    std::size_t step = 0;
    for (; step < nics.size(); ++step) {
      const std::size_t other = (first + step) % nics.size();
      const bool fits = targets[other].leaf != nics[i].leaf && targets[i].leaf != nics[other].leaf;
      if (!fits) continue;
      std::swap(targets[i], targets[other]);
      break;
    }
    if (step < nics.size()) continue;
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("leaf {} has more than half of all NICs, so that not all can send to "
                            "another leaf",
                            topology.node(nics[i].leaf).id));
  }
  if (nics.empty()) {
    return Fail(ErrorCode::kFailedPrecondition, "the topology has no NIC on a leaf");
  }
  std::vector<Exchange::Flow> flows;
  for (std::size_t i = 0; i < nics.size(); ++i) flows.push_back({nics[i].node, targets[i].node});
  return std::vector<Job>{MakeJob("job0", std::move(flows))};
}

// Deals the NICs out in cycles, each with one NIC of every leaf that has some left, and cuts the
// cycles into rings.
Result<std::vector<Job>> MakeRings(const Topology& topology, int count, std::uint64_t seed) {
  Random random(seed);
  std::map<NodeId, std::vector<Nic>> by_leaf;
  std::vector<Nic> all = ListNics(topology);
  Shuffle(all, random);
  for (const Nic& nic : all) by_leaf[nic.leaf].push_back(nic);
  const auto jobs = static_cast<std::size_t>(count);
  if (all.size() < 2 * jobs) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("{} NICs are too few for {} rings", all.size(), count));
  }
  std::vector<Nic> order;
  while (order.size() < all.size()) {
    std::vector<Nic> cycle;
    for (auto& [leaf, nics] : by_leaf) {
      if (nics.empty()) continue;
      cycle.push_back(nics.back());
      nics.pop_back();
    }
    Shuffle(cycle, random);
    if (!order.empty() && cycle.front().leaf == order.back().leaf) std::ranges::reverse(cycle);
    order.insert(order.end(), cycle.begin(), cycle.end());
  }
  std::vector<Job> made;
  for (std::size_t j = 0; j < jobs; ++j) {
    const std::size_t begin = order.size() * j / jobs;
    const std::size_t end = order.size() * (j + 1) / jobs;
    // The last one must not be on the leaf of the first, to which it sends.
    if (end - begin > 2 && order[end - 1].leaf == order[begin].leaf &&
        order[end - 3].leaf != order[end - 1].leaf) {
      std::swap(order[end - 2], order[end - 1]);
    }
    std::vector<Exchange::Flow> flows;
    for (std::size_t i = begin; i < end; ++i) {
      flows.push_back({order[i].node, order[i + 1 < end ? i + 1 : begin].node});
    }
    made.push_back(MakeJob(fmt::format("job{}", j), std::move(flows)));
  }
  return made;
}

namespace {

// What one leaf or NIC must send, or receive, over the links that it has, in bits per nanosecond.
struct Side {
  double bits = 0;
  double before = 0;
  double after = 0;
  double demand = 0;  // of the NICs of the flows: more cannot be sent before the change
};

double RateOf(const fabric::Link& link) {
  return link.state == fabric::LinkState::kUp ? static_cast<double>(link.rate.value) / 1e9 : 0;
}

double TimeOf(const Side& side, double change_ns) {
  const double sent = std::min(side.before, side.demand) * change_ns;
  if (sent >= side.bits) return side.bits / std::min(side.before, side.demand);
  return change_ns + (side.bits - sent) / std::min(side.after, side.demand);
}

}  // namespace

double FractionalBound(const Workload& workload, const FabricChange& fabric, double bits) {
  const Topology& topology = fabric.before;
  std::vector<Side> sends(topology.nodes().size());
  std::vector<Side> receives(topology.nodes().size());
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    const fabric::Link& link = topology.link(id);
    if (!topology.IsSwitchToSwitch(id)) continue;
    for (const auto& [sender, receiver] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
      if (link.directed && sender == link.b) continue;
      for (Side* side : {&sends[sender.Index()], &receives[receiver.Index()]}) {
        side->before += RateOf(link);
        side->after += RateOf(fabric.after.link(id));
      }
    }
  }
  std::vector<Side> nics(2 * topology.links().size());  // by directed link
  const auto count_nic = [&](fabric::DirectedLink link) {
    Side& nic = nics[link.Index()];
    nic.before = RateOf(topology.link(link.link));
    nic.after = RateOf(fabric.after.link(link.link));
    nic.demand = nic.before;
    nic.bits += bits;
  };
  for (const SimulatedFlow& flow : workload.flows()) {
    const fabric::DirectedLink uplink = *flow.source_attachment.uplink;
    const fabric::DirectedLink downlink = *flow.destination_attachment.Downlink();
    count_nic(uplink);
    count_nic(downlink);
    if (flow.source_attachment.leaf == flow.destination_attachment.leaf) continue;
    const double rate =
        std::min(RateOf(topology.link(uplink.link)), RateOf(topology.link(downlink.link)));
    for (Side* side : {&sends[flow.source_attachment.leaf.Index()],
                       &receives[flow.destination_attachment.leaf.Index()]}) {
      side->bits += bits;
      side->demand += rate;
    }
  }
  double most = 0;
  for (const auto* sides : {&sends, &receives, &nics}) {
    for (const Side& side : *sides) {
      if (side.bits > 0) most = std::max(most, TimeOf(side, fabric.change_ns));
    }
  }
  return most;
}

}  // namespace espalier::offline
