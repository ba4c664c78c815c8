#include "collective/synthesis/schedules/bfb.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "collective/synthesis/construction.h"
#include "collective/synthesis/schedules/verifier.h"
#include "controller/offline/evaluation/solver.h"
#include "tests/collective/synthesis/random_digraph.h"
#include "tests/seeds.h"

namespace espalier::synthesis {
namespace {

Digraph Graph(std::string_view construction) {
  const auto parsed = ParseConstruction(construction);
  EXPECT_TRUE(parsed) << construction;
  const auto network = BuildNetwork(*parsed);
  EXPECT_TRUE(network) << construction;
  return network ? network->graph : Digraph();
}

struct Expected {
  std::string_view construction;
  std::int32_t steps;
  Rational t_b;
};

// Exact values of the dissertation and of computations that agree with it.
TEST(Bfb, GivesTheExactValuesOfKnownNetworks) {
  const std::vector<Expected> cases{
      {"Bipartite(2)", 2, {3, 4}},
      {"Bipartite(4)", 2, {7, 8}},
      {"Complete(5)", 1, {4, 5}},
      {"Hamming(2, 3)", 2, {8, 9}},
      {"Circulant(7, 2, 3)", 2, {6, 7}},
      {"Circulant(11, 2, 3)", 2, {10, 11}},
      {"Circulant(12, 2, 3)", 2, {11, 12}},
      {"Degree(Complete(3), 2)", 2, {5, 6}},
      {"Degree(BiRing(2, 5), 2)", 2, {9, 10}},
      {"Circulant(16, 3, 4)", 3, {15, 16}},
      {"Torus(3, 3, 2)", 3, {17, 18}},
      {"Torus(3, 3, 3)", 3, {26, 27}},
      {"Torus(3, 3, 3, 2)", 4, {53, 54}},
      {"Torus(50, 50)", 50, {2499, 2500}},
      {"GenKautz(4, 64)", 3, {21, 16}},
      {"Product(BiRing(2, 8), UniRing(1, 4), UniRing(1, 4))", 10, {127, 128}},
      {"Line(Product(UniRing(1, 4), UniRing(1, 4), UniRing(1, 4), UniRing(1, 2)))", 11, {1, 1}},
      {"GenKautz(2, 9)", 3, {14, 9}},
      {"GenKautz(4, 17)", 3, {64, 51}},
      {"DeBruijn(4, 2)", 2, {5, 4}},
      {"DeBruijn(2, 3)", 3, {7, 4}},
      {"Line(Bipartite(4))", 3, {1, 1}},
      {"Bfb(Power(GenKautz(2, 6), 2))", 4, {35, 36}},
      {"GenKautz(4, 1000)", 5, {333, 250}},
      {"GenKautz(4, 1024)", 5, {341, 256}},
  };
  for (const Expected& one : cases) {
    SCOPED_TRACE(one.construction);
    const auto cost = ComputeBfbCost(Graph(one.construction));
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_EQ(cost->steps, one.steps);
    EXPECT_EQ(cost->t_b.ToString(), one.t_b.ToString());
  }
}

TEST(Bfb, IsOptimalOnRingsAndCubes) {
  for (std::int64_t m = 3; m <= 64; ++m) {
    const auto both = ComputeBfbCost(Graph(fmt::format("BiRing(2, {})", m)));
    EXPECT_EQ(both->steps, m / 2);
    EXPECT_EQ(both->t_b, Rational(m - 1, m));
    const auto one_way = ComputeBfbCost(Graph(fmt::format("UniRing(1, {})", m)));
    EXPECT_EQ(one_way->steps, m - 1);
    EXPECT_EQ(one_way->t_b, Rational(m - 1, m));
  }
  for (const int n : {2, 3, 4, 5, 6, 10}) {
    const auto cube = ComputeBfbCost(Graph(fmt::format("Hamming({}, 2)", n)));
    EXPECT_EQ(cube->steps, n);
    EXPECT_EQ(cube->t_b, Rational((1 << n) - 1, 1 << n));
  }
}

TEST(Bfb, CostsTheSumOfBothDirectionsInAnAllreduceOnNetworksThatAreNotReversible) {
  const std::vector<std::tuple<std::string_view, Rational, Rational>> cases{
      {"GenKautz(2, 9)", {10, 9}, {24, 9}}, {"GenKautz(4, 1000)", {341, 250}, {674, 250}}};
  for (const auto& [construction, reduce, all] : cases) {
    const Digraph graph = Graph(construction);
    EXPECT_EQ(ComputeBfbCost(graph.Transpose())->t_b, reduce) << construction;
    const auto schedule = MakeBfbSchedule(graph, Collective::kAllreduce);
    ASSERT_TRUE(schedule);
    const auto cost = VerifySchedule(graph, *schedule);
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_EQ(cost->t_b, all) << construction;
  }
}

// Facts: 71 of the generalised Kautz graphs of degree 2 to 4 up to 60 nodes differ from their
// reverse.
TEST(Bfb, DiffersFromTheReverseOnMostGeneralisedKautzGraphs) {
  int different = 0;
  for (int d = 2; d <= 4; ++d) {
    for (int m = d + 1; m <= 60; ++m) {
      const Digraph graph = Graph(fmt::format("GenKautz({}, {})", d, m));
      if (ComputeBfbCost(graph)->t_b != ComputeBfbCost(graph.Transpose())->t_b) ++different;
    }
  }
  EXPECT_EQ(different, 71);
}

// Figure A.7: at most twice the least possible.
TEST(Bfb, IsWithinAFactorOfTwoOnGeneralisedKautzGraphs) {
  for (const std::int64_t d : {2, 4, 8, 16}) {
    for (std::int64_t m = d + 1; m <= 400; m += m < 60 ? 1 : 47) {
      const auto cost = ComputeBfbCost(Graph(fmt::format("GenKautz({}, {})", d, m)));
      ASSERT_TRUE(cost);
      EXPECT_LE(cost->t_b, Rational(2 * (m - 1), m)) << d << " " << m;
    }
  }
}

// A network with renamed nodes has no translations that are found, so all its nodes are looked at.
TEST(Bfb, CostsTheSameFromOneNodeOfANetworkWithTranslations) {
  for (const std::string_view construction :
       {"Circulant(101)", "Torus(3, 4, 5)", "Hamming(3, 4)", "DirectedCirculant(5)",
        "Degree(UniRing(1, 4), 3)", "Bipartite(12)", "BiRing(4, 30)"}) {
    SCOPED_TRACE(construction);
    const Digraph graph = Graph(construction);
    ASSERT_TRUE(Translations::Find(graph));
    std::vector<Arc> arcs;
    const std::int32_t other = graph.node_count() / 2 + 1;
    const auto name = [&](std::int32_t node) {
      return node == 0 ? other : node == other ? 0 : node;
    };
    for (const Arc& arc : graph.arcs()) {
      arcs.push_back({name(arc.tail), name(arc.head), arc.capacity});
    }
    const Digraph renamed(graph.node_count(), arcs);
    EXPECT_FALSE(Translations::Find(renamed));
    EXPECT_EQ(ComputeBfbCost(graph)->step_loads, ComputeBfbCost(renamed)->step_loads);
    const auto schedule = MakeBfbAllgather(graph);
    ASSERT_TRUE(schedule);
    const auto cost = VerifySchedule(graph, *schedule);
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_EQ(cost->t_b, ComputeBfbCost(renamed)->t_b);
  }
}

TEST(Bfb, ReportsNetworksWithoutASchedule) {
  EXPECT_EQ(ComputeBfbCost(Digraph(1, {})).error().message, "a schedule needs at least two nodes");
  EXPECT_EQ(MakeBfbAllgather(Digraph(2, {{0, 1, 1}})).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(MakeBfbAllgather(Digraph(2, {})).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(MakeBfbSchedule(Graph("Complete(3)"), Collective::kBroadcast).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(ComputeBfbCost(Graph("Complete(66)")).error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(ComputeBfbCost(Graph("Complete(65)")));
  EXPECT_EQ(MakeBfbAllgather(Graph("Complete(3)"), kMaxChunks + 1).error().code,
            ErrorCode::kResourceExhausted);
}

std::vector<std::vector<std::uint16_t>> Distances(const Digraph& graph) {
  std::vector<std::vector<std::uint16_t>> to(static_cast<std::size_t>(graph.node_count()));
  for (std::int32_t node = 0; node < graph.node_count(); ++node) {
    auto& row = to[static_cast<std::size_t>(node)];
    row.resize(to.size());
    graph.DistancesTo(node, row);
  }
  return to;
}

// The linear program (3.1) of all nodes and steps, as a sum over the steps of the largest U, solved
// by cbc; with `chunks`, the integer program (A.11). Returns T_B in M/B.
double SolveProgram(const Digraph& graph, std::int64_t chunks) {
  const auto to = Distances(graph);
  std::map<std::pair<int, std::int32_t>, std::string> load;  // by step and arc
  std::string rows;
  std::string variables;
  for (std::size_t u = 0; u < to.size(); ++u) {
    const auto [begin, end] = graph.Into(static_cast<std::int32_t>(u));
    for (std::size_t v = 0; v < to.size(); ++v) {
      if (v == u) continue;
      const int t = to[u][v];
      std::string sum;
      for (std::int32_t a = begin; a < end; ++a) {
        const auto w = static_cast<std::size_t>(graph.arcs()[static_cast<std::size_t>(a)].tail);
        if (to[w][v] + 1 != t) continue;
        const std::string name = fmt::format("x{}_{}", v, a);
        sum += " + " + name;
        load[{t, a}] += " + " + name;
        variables += " " + name + "\n";
      }
      rows += sum + fmt::format(" = {}\n", std::max<std::int64_t>(chunks, 1));
    }
  }
  std::string objective = "Minimize\n obj:";
  int steps = 0;
  for (const auto& [key, sum] : load) {
    rows +=
        sum + fmt::format(" - {} U{} <= 0\n",
                          graph.arcs()[static_cast<std::size_t>(key.second)].capacity, key.first);
    steps = std::max(steps, key.first);
  }
  for (int t = 1; t <= steps; ++t) objective += fmt::format(" + U{}", t);
  const std::string kinds = chunks > 0 ? "Generals\n" + variables : "";
  const auto solution =
      offline::SolveWithCbc(objective + "\nSubject To\n" + rows + kinds + "End\n");
  EXPECT_TRUE(solution) << solution.error().message;
  constexpr std::string_view kStart = "Optimal - objective value ";
  EXPECT_TRUE(solution && solution->starts_with(kStart));
  if (!solution || !solution->starts_with(kStart)) return 0;
  return std::stod(solution->substr(kStart.size())) * static_cast<double>(graph.degree()) /
         static_cast<double>(graph.node_count() * std::max<std::int64_t>(chunks, 1));
}

Digraph DrawDigraph(std::uint64_t seed, std::mt19937_64& random) {
  const auto nodes = static_cast<std::int32_t>(3 + seed % 8);
  if (seed % 3 == 0) return MakeRandomRegular(nodes, 2 + static_cast<int>(seed % 2), random);
  return MakeRandomDigraph(nodes, 3 * nodes, seed % 3 == 1 ? 1 : 5, random);
}

void ExpectAsTheSolver(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const Digraph graph = DrawDigraph(seed, random);
  const auto cost = ComputeBfbCost(graph);
  ASSERT_TRUE(cost);
  EXPECT_NEAR(cost->t_b.ToDouble(), SolveProgram(graph, 0), 1e-6);
}

TEST(Bfb, CostsWhatASolverFindsOnRandomDigraphs) {
  for (const std::uint64_t seed : SeedsToTry(1, 60)) ExpectAsTheSolver(seed);
}

// More than ten links into a node: by flows in place of subsets.
TEST(Bfb, CostsWhatASolverFindsOnNetworksOfHighDegree) {
  int by_flows = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 12)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    // Half of the nodes have links from most others, so that steps differ in what limits them.
    std::vector<Arc> arcs;
    for (std::int32_t n = 0; n < 26; ++n) {
      arcs.push_back({n, (n + 1) % 26, 1 + static_cast<std::int64_t>(seed % 3)});
      for (std::int32_t m = 0; m < 13; ++m) {
        if (m != n && random() % 10 < (n < 13 ? 9 : 3)) arcs.push_back({n, m, 1});
      }
    }
    const Digraph graph(26, arcs);
    for (std::int32_t n = 0; n < 26; ++n) {
      by_flows += graph.Into(n).second - graph.Into(n).first > 10 ? 1 : 0;
    }
    const auto cost = ComputeBfbCost(graph);
    ASSERT_TRUE(cost);
    EXPECT_NEAR(cost->t_b.ToDouble(), SolveProgram(graph, 0), 1e-6);
  }
  EXPECT_GT(by_flows, 100);
}

TEST(LongBfb, CostsWhatASolverFindsOnAThousandRandomDigraphs) {
  for (const std::uint64_t seed : SeedsToTry(1000, 1000)) ExpectAsTheSolver(seed);
}

TEST(Bfb, IsOptimalInWholeChunksOnRandomDigraphs) {
  for (const std::uint64_t seed : SeedsToTry(1, 30)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Digraph graph = DrawDigraph(seed, random);
    const auto chunks = static_cast<std::int64_t>(1 + seed % 4);
    const auto schedule = MakeBfbAllgather(graph, chunks);
    ASSERT_TRUE(schedule);
    EXPECT_EQ(schedule->chunks, chunks);
    const auto cost = VerifySchedule(graph, *schedule);
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_NEAR(cost->t_b.ToDouble(), SolveProgram(graph, chunks), 1e-6);
  }
}

// Without a number of chunks, the schedule attains the cost exactly and sends nothing twice. The
// larger degrees use flows in place of subsets of links.
TEST(Bfb, MakesSchedulesThatAttainTheCost) {
  for (const std::uint64_t seed : SeedsToTry(1, 150)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto nodes = static_cast<std::int32_t>(2 + seed % 20);
    const int arcs = nodes * static_cast<int>(2 + seed % 13);
    const Digraph graph = seed % 2 == 0
                              ? MakeRandomDigraph(nodes, arcs, seed % 4 == 0 ? 9 : 1, random)
                              : MakeRandomRegular(nodes, 2 + static_cast<int>(seed % 3), random);
    const auto cost = ComputeBfbCost(graph);
    const auto allgather = MakeBfbAllgather(graph);
    ASSERT_TRUE(cost && allgather);
    const auto verified = VerifySchedule(graph, *allgather);
    ASSERT_TRUE(verified) << verified.error().message;
    EXPECT_EQ(verified->t_b, cost->t_b);
    EXPECT_EQ(verified->steps, cost->steps);
    EXPECT_EQ(verified->duplicate_chunks, 0);
    const auto reduce = MakeBfbSchedule(graph, Collective::kReduceScatter);
    const auto all = MakeBfbSchedule(graph, Collective::kAllreduce);
    ASSERT_TRUE(reduce && all);
    const auto reduce_cost = VerifySchedule(graph, *reduce);
    const auto all_cost = VerifySchedule(graph, *all);
    ASSERT_TRUE(reduce_cost && all_cost);
    EXPECT_EQ(all_cost->t_b, *Rational::Sum(verified->t_b, reduce_cost->t_b));
  }
}

}  // namespace
}  // namespace espalier::synthesis
