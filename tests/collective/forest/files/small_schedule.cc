#include "tests/collective/forest/files/small_schedule.h"

#include <string>
#include <vector>

#include "common/base/check.h"

namespace espalier::forest {

using fabric::NodeId;
using fabric::NodeKind;

fabric::Topology MakeSmallTopology() {
  fabric::TopologySpec spec;
  for (const char* id : {"a", "b", "c", "s"}) {
    fabric::Node& node = spec.nodes.emplace_back();
    node.id = id;
    node.kind = node.id == "s" ? NodeKind::kSwitch : NodeKind::kCompute;
    node.multicast = node.reduce = node.id == "s";
  }
  for (const std::int32_t rank : {0, 1, 2}) {
    fabric::Link& link = spec.links.emplace_back();
    link.a = NodeId(rank);
    link.b = NodeId(3);
    link.rate = BitsPerSecond{rank == 2 ? 20'000'000'000 : 10'000'000'000};
  }
  auto topology = fabric::Topology::Build(std::move(spec));
  ESPALIER_CHECK(topology.has_value(), "{}", topology.error().error.message);
  return std::move(*topology);
}

TreeSchedule MakeSmallSchedule() {
  const NodeId a(0);
  const NodeId b(1);
  const NodeId c(2);
  const NodeId s(3);
  TreeSchedule schedule;
  schedule.collective = Collective::kAllreduce;
  schedule.ranks = {a, b, c};
  schedule.weights = {1, 0, 0};
  schedule.on_share = true;
  schedule.in_network = true;
  schedule.bound_inverse_rate = Rational(1, 10);
  schedule.cut = {a};
  schedule.trees_per_weight = 2;
  schedule.tree_gbps = Rational(5, 2);
  schedule.inverse_rate = Rational(1, 5);

  Forest& up = schedule.forests.emplace_back();
  up.rank_count = 3;
  up.trees_per_weight = 2;
  up.classes = {{0, 1}, {0, 1}};
  up.parents = {kNoRank, 0, 0, kNoRank, 0, 1};
  up.unroutable_edges = 1;
  const auto add = [](Forest& forest, Rank from, Rank to, std::int64_t count,
                      std::vector<std::int32_t> hops) {
    forest.routes.AddArc(from, to);
    forest.routes.AddRoute(count, hops);
  };
  add(up, 0, 1, 2, {0, 1});
  add(up, 0, 2, 1, {0, 2});
  add(up, 1, 2, 1, {3, 2});
  up.routes.Index(3);
  schedule.phases.push_back({0, true, {{s, a}, {b, s}, {c, s}, {s, b}}});

  Forest& down = schedule.forests.emplace_back();
  down.rank_count = 3;
  down.trees_per_weight = 2;
  down.classes = {{0, 2}};
  down.parents = {kNoRank, 0, 0};
  down.unroutable_edges = 2;
  add(down, 0, 1, 2, {0, 1});
  add(down, 0, 2, 2, {0, 2});
  down.routes.Index(3);
  schedule.phases.push_back({1, false, {{a, s}, {s, b}, {s, c}}});
  return schedule;
}

}  // namespace espalier::forest
