#include "collective/forest/planner/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "collective/forest/files/forest_binary.h"
#include "collective/forest/files/forest_json.h"
#include "collective/forest/files/parse_forest_json.h"
#include "common/fabric/accelerator_builders.h"
#include "common/fabric/builders.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

using fabric::Topology;

Topology BuildOrDie(Result<fabric::TopologySpec> spec) {
  EXPECT_TRUE(spec.has_value());
  auto topology = Topology::Build(*spec);
  EXPECT_TRUE(topology.has_value());
  return *topology;
}

VerifiedSchedule PlanOrDie(const Topology& topology, const ScheduleOptions& options = {}) {
  auto made = MakeTreeSchedule(topology, options);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(*made);
}

struct Case {
  std::string name;
  Topology topology;
  Rational algbw_gbps;  // 8 times the table's value in GB/s
  std::int32_t max_height;
  Method method;
};

// The bounds are those of the literature; the heights are limits for the construction.
std::vector<Case> Cases() {
  const BitsPerSecond unit{1'000'000'000};
  const BitsPerSecond narrow{20'000'000'000};
  const auto hierarchical = Method::kHierarchical;
  return {
      {"a100_1", BuildOrDie(fabric::BuildA100({1})), Rational(19'200, 7), 1, hierarchical},
      {"a100_2", BuildOrDie(fabric::BuildA100({2})), Rational(8'320, 3), 8, hierarchical},
      {"a100_4", BuildOrDie(fabric::BuildA100({4})), Rational(6'400, 3), 2, hierarchical},
      {"h100_2", BuildOrDie(fabric::BuildH100({2})), Rational(12'800, 3), 8, hierarchical},
      {"h100_5", BuildOrDie(fabric::BuildH100({5})), Rational(4'000, 1), 2, hierarchical},
      {"mi250_1", BuildOrDie(fabric::BuildMi250({1})), Rational(19'200, 7), 8, Method::kGeneral},
      {"mi250_2", BuildOrDie(fabric::BuildMi250({2})), Rational(42'496, 15), 16, hierarchical},
      {"mi250_8", BuildOrDie(fabric::BuildMi250({8})), Rational(16'384, 7), 8, hierarchical},
      {"torus", BuildOrDie(fabric::BuildTorus(std::vector{4, 4}, unit)), Rational(64, 15), 4,
       Method::kLabels},
      {"clos4x4s4",
       BuildOrDie(fabric::BuildLeafSpine({.spines = 4, .leaves = 4, .hosts_per_leaf = 4})),
       Rational(320, 3), 2, hierarchical},
      {"ov4x4s3",
       BuildOrDie(fabric::BuildLeafSpine(
           {.spines = 3, .leaves = 4, .hosts_per_leaf = 4, .fabric_rate = narrow})),
       Rational(80, 1), 8, hierarchical},
  };
}

TEST(MakeTreeSchedule, AttainsTheBoundWithShallowTrees) {
  for (const Case& c : Cases()) {
    const VerifiedSchedule made = PlanOrDie(c.topology);
    EXPECT_EQ(made.schedule.AlgorithmGbps(made.schedule.inverse_rate), c.algbw_gbps) << c.name;
    EXPECT_EQ(made.schedule.FractionOfBound(), Rational(1, 1)) << c.name;
    EXPECT_LE(made.findings.heights.max, c.max_height) << c.name;
    EXPECT_EQ(made.schedule.forests[0].method, c.method) << c.name;
    EXPECT_EQ(made.schedule.forests[0].unroutable_edges, 0) << c.name;
  }
}

TEST(MakeTreeSchedule, AttainsTheBoundByTheGeneralConstructionToo) {
  for (const Case& c : Cases()) {
    const VerifiedSchedule made =
        PlanOrDie(c.topology, {.use_structure = false, .height_steps = 100'000});
    EXPECT_EQ(made.schedule.AlgorithmGbps(made.schedule.inverse_rate), c.algbw_gbps) << c.name;
    EXPECT_EQ(made.schedule.forests[0].method, Method::kGeneral) << c.name;
  }
}

// The limit is twice the height on the undamaged machine plus four: 2 edges for boxes with a switch
// and for leaf-spine fabrics, 8 for meshes of GPUs (10 with two boxes only).
TEST(MakeTreeSchedule, KeepsTreesShallowOnDamagedFabrics) {
  struct Fabric {
    std::string name;
    std::vector<std::string> damages;
    std::int32_t max_height;
  };
  const std::vector<std::string> of_boxes = {"deadnic", "deadnics", "slownic", "deadgpu",
                                             "random1", "random2",  "random6", "random39"};
  const std::vector<std::string> of_trunks = {"deadspine", "deadlink", "random1", "random2"};
  const std::vector<Fabric> fabrics = {
      {"a100_2", of_boxes, 8},        {"a100_3", of_boxes, 8},       {"a100_4", of_boxes, 8},
      {"a100_16", of_boxes, 8},       {"h100_2", of_boxes, 8},       {"h100_4", of_boxes, 8},
      {"h100_8", of_boxes, 8},        {"mi250_2", of_boxes, 24},     {"mi250_4", of_boxes, 20},
      {"mi250_8", of_boxes, 20},      {"clos4x4s4", of_trunks, 8},   {"clos4x4s3_40", of_trunks, 8},
      {"clos4x4s3_20", of_trunks, 8}, {"clos8x8s4_50", of_trunks, 8}};
  for (const Fabric& fabric : fabrics) {
    for (const std::string& damage : fabric.damages) {
      const std::string name = fabric.name + "+" + damage;
      const Topology topology = BuildTopology(MakeReferenceTopology(name));
      const VerifiedSchedule made = PlanOrDie(topology, {.height_steps = 500'000});
      EXPECT_EQ(made.schedule.FractionOfBound(), Rational(1, 1)) << name;
      EXPECT_LE(made.findings.heights.max, fabric.max_height) << name;
      EXPECT_EQ(made.schedule.forests[0].unroutable_edges, 0) << name;
    }
  }
}

// Links between boxes are so tight that the first order of filling them fails.
TEST(MakeTreeSchedule, FillsTightLinksBetweenManyBoxes) {
  for (const std::string name : {"a100_128+deadnics", "clos32x32s32+deadspine"}) {
    const VerifiedSchedule made = PlanOrDie(BuildTopology(MakeReferenceTopology(name)));
    EXPECT_EQ(made.schedule.forests[0].method, Method::kHierarchical) << name;
    EXPECT_LE(made.findings.heights.max, 3) << name;
    EXPECT_EQ(made.schedule.FractionOfBound(), Rational(1, 1)) << name;
  }
}

TEST(MakeTreeSchedule, ServesEveryCollective) {
  const Topology topology = BuildOrDie(fabric::BuildA100({2}));
  ScheduleOptions options;
  options.collective = Collective::kAllreduce;
  const VerifiedSchedule allreduce = PlanOrDie(topology, options);
  EXPECT_EQ(allreduce.schedule.phases.size(), 2U);
  EXPECT_EQ(allreduce.schedule.AlgorithmGbps(allreduce.schedule.inverse_rate), Rational(4'160, 3));
  options.root = topology.FindNode("box1/gpu3");
  EXPECT_FALSE(MakeTreeSchedule(topology, options).has_value());  // allreduce takes no root
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
    options.collective = collective;
    const VerifiedSchedule made = PlanOrDie(topology, options);
    for (const TreeClass& tree : made.schedule.forests[0].classes) {
      EXPECT_EQ(made.schedule.ranks[tree.root], *options.root);
    }
  }
  // The root has all data, so its weight is the only one.
  options.problem.weights.assign(allreduce.schedule.ranks.size(), 1);
  const auto weighted = MakeTreeSchedule(topology, options);
  ASSERT_FALSE(weighted.has_value());
  EXPECT_EQ(weighted.error().message, "reduce needs a root and takes no weights");
  options.problem.weights.clear();
  options.root.reset();
  EXPECT_FALSE(MakeTreeSchedule(topology, options).has_value());
}

// The residual capacity of these links differs by direction, so the best number of trees differs
// too; a schedule has one number.
TEST(MakeTreeSchedule, TakesOneNumberOfTreesForBothDirections) {
  fabric::TopologySpec spec;
  for (int i = 0; i < 4; ++i) spec.nodes.push_back({.id = "n" + std::to_string(i)});
  const auto join = [&](int a, int b) {
    spec.links.push_back({.a = fabric::NodeId(a), .b = fabric::NodeId(b)});
    spec.links.back().rate = BitsPerSecond{50'000'000'000};
  };
  join(0, 1), join(3, 0), join(2, 1), join(3, 2);
  const Topology topology = BuildOrDie(spec);
  ScheduleOptions options{.collective = Collective::kAllreduce};
  for (const std::int64_t mbps : {2'000, 6'000, 1'500, 4'500, 3'000, 2'250, 50'000, 37'500}) {
    options.problem.available.push_back(BitsPerSecond{mbps * 1'000'000});
  }
  int differ = 0;
  std::optional<Rational> best;
  for (int limit = 1; limit <= 6; ++limit) {
    options.max_trees_per_weight = 0;
    options.trees_per_weight = limit;
    const auto fixed = MakeTreeSchedule(topology, options);
    if (fixed)
      best = best ? std::min(*best, fixed->schedule.inverse_rate) : fixed->schedule.inverse_rate;
    options.trees_per_weight = 0;
    options.max_trees_per_weight = limit;
    const auto limited = MakeTreeSchedule(topology, options);
    ASSERT_EQ(limited.has_value(), best.has_value()) << limit;
    if (!limited) continue;
    EXPECT_EQ(limited->schedule.inverse_rate, *best) << limit;
    differ += limited->schedule.forests.size() == 2 ? 1 : 0;
  }
  EXPECT_GT(differ, 0);
}

TEST(MakeTreeSchedule, IsTheSameForAnyNumberOfThreads) {
  for (const std::string name : {"a100_4", "a100_4+deadnic", "mi250_4", "clos4x4s4+deadspine",
                                 "torus4x4", "a100_2", "ring8"}) {
    SCOPED_TRACE(name);
    const Topology topology = BuildOrDie(MakeReferenceTopology(name));
    const auto plan_with = [&](int threads) {
      auto made = MakeTreeSchedule(topology, {.height_steps = 100'000}, {.threads = threads});
      EXPECT_TRUE(made.has_value()) << made.error().message;
      return std::move(*made);
    };
    const VerifiedSchedule one = plan_with(1);
    const std::string bytes = EncodeForest(topology, one.schedule);
    for (const int threads : {2, 3, 40}) {
      const VerifiedSchedule several = plan_with(threads);
      EXPECT_TRUE(EncodeForest(topology, several.schedule) == bytes) << threads;
      EXPECT_EQ(several.findings.heights.mean, one.findings.heights.mean);
      EXPECT_EQ(several.findings.edges, one.findings.edges);
    }
  }
}

TEST(MakeTreeSchedule, RefusesWhatCannotFit) {
  const auto made =
      MakeTreeSchedule(BuildOrDie(fabric::BuildA100({4})), {.memory_limit_bytes = 1'000});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kResourceExhausted);
  const auto cancelled =
      MakeTreeSchedule(BuildOrDie(fabric::BuildA100({4})), {}, {.cancelled = [] { return true; }});
  ASSERT_FALSE(cancelled.has_value());
  EXPECT_EQ(cancelled.error().code, ErrorCode::kUnavailable);
}

TEST(ForestFiles, KeepTheScheduleInBothFormats) {
  for (const Case& c : Cases()) {
    for (const Collective collective : {Collective::kAllgather, Collective::kAllreduce}) {
      ScheduleOptions options;
      options.collective = collective;
      options.height_steps = 100'000;
      const VerifiedSchedule made = PlanOrDie(c.topology, options);
      const auto json = FormatForestJson(c.topology, made.schedule, {});
      ASSERT_TRUE(json.has_value());
      for (const auto& read :
           {DecodeForest(EncodeForest(c.topology, made.schedule), "f", c.topology),
            ParseForestJson(*json, "f", c.topology)}) {
        ASSERT_TRUE(read.has_value()) << c.name << ": " << read.error().message;
        const auto findings = VerifySchedule(c.topology, *read);
        ASSERT_TRUE(findings.has_value()) << c.name << ": " << findings.error().message;
        EXPECT_EQ(findings->heights.max, made.findings.heights.max);
        EXPECT_EQ(read->cut, made.schedule.cut);
        EXPECT_EQ(read->tree_gbps, made.schedule.tree_gbps);
      }
    }
  }
}

// Every truncation and every changed byte gives an error with its place, or a schedule that can be
// verified.
TEST(ForestFiles, SurviveDamage) {
  const Topology topology = BuildOrDie(fabric::BuildA100({2}));
  const std::string bytes = EncodeForest(topology, PlanOrDie(topology).schedule);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto cut = DecodeForest(bytes.substr(0, i), "f", topology);
    ASSERT_FALSE(cut.has_value()) << i;
    EXPECT_TRUE(cut.error().message.starts_with("f:byte ")) << cut.error().message;
    for (const char flip : {'\x01', '\x80', '\xFF'}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const auto read = DecodeForest(damaged, "f", topology);
      if (read) static_cast<void>(VerifySchedule(topology, *read).has_value());
    }
  }
}

}  // namespace
}  // namespace espalier::forest
