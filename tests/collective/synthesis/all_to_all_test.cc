#include "collective/synthesis/all_to_all.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "collective/program/verifier/verifier.h"
#include "collective/synthesis/concurrent_flow.h"
#include "collective/synthesis/construction.h"
#include "controller/offline/evaluation/solver.h"
#include "tests/collective/program/reference_run.h"
#include "tests/collective/synthesis/random_digraph.h"
#include "tests/seeds.h"

namespace espalier::synthesis {
namespace {

using forest::Rational;

constexpr double kPrinted = 1e-6;  // cbc prints eight decimal places

Digraph Graph(std::string_view construction) {
  const auto network = BuildNetwork(*ParseConstruction(construction));
  EXPECT_TRUE(network) << construction;
  return network ? network->graph : Digraph();
}

// The linear program (A.1), solved by cbc.
double SolveProgram(const Digraph& graph, const Demand& demand = {}) {
  std::string rows;
  std::vector<std::string> capacity(graph.arcs().size());
  for (std::int32_t s = 0; s < graph.node_count(); ++s) {
    std::vector<std::string> balance;
    for (std::int32_t u = 0; u < graph.node_count(); ++u) {
      const auto pair = static_cast<std::size_t>(s * graph.node_count() + u);
      balance.push_back(fmt::format("{} f", demand.empty() ? 1 : demand[pair]));
    }
    for (std::size_t a = 0; a < graph.arcs().size(); ++a) {
      const Arc& arc = graph.arcs()[a];
      const std::string name = fmt::format("y{}_{}", s, a);
      balance[static_cast<std::size_t>(arc.tail)] += " + " + name;
      balance[static_cast<std::size_t>(arc.head)] += " - " + name;
      capacity[a] += " + " + name;
    }
    for (std::int32_t u = 0; u < graph.node_count(); ++u) {
      if (u != s) rows += balance[static_cast<std::size_t>(u)] + " <= 0\n";
    }
  }
  for (std::size_t a = 0; a < capacity.size(); ++a) {
    rows += capacity[a] + fmt::format(" <= {}\n", graph.arcs()[a].capacity);
  }
  const auto solution = offline::SolveWithCbc("Maximize\n obj: f\nSubject To\n" + rows + "End\n");
  constexpr std::string_view kStart = "Optimal - objective value ";
  EXPECT_TRUE(solution && solution->starts_with(kStart));
  if (!solution || !solution->starts_with(kStart)) return 0;
  return std::abs(std::stod(solution->substr(kStart.size())));
}

// The rate that the routing attains and the bound enclose what the solver finds.
void ExpectEncloses(const Digraph& graph, bool is_exact) {
  const auto all = ComputeAllToAll(graph);
  ASSERT_TRUE(all) << all.error().message;
  const double best = SolveProgram(graph);
  EXPECT_LE(all->rate.ToDouble(), best + kPrinted);
  EXPECT_GE(all->bound.ToDouble(), best - kPrinted);
  EXPECT_LE(all->bound.ToDouble(), all->rate.ToDouble() * 1.02);
  if (is_exact) {
    EXPECT_EQ(all->rate, all->bound);
  }
  const auto cost = VerifyAllToAll(graph, *all);
  ASSERT_TRUE(cost) << cost.error().message;
  EXPECT_EQ(*Rational::Product(cost->overlapped, all->rate), Rational(1, 1));
  EXPECT_GE(cost->stepwise, cost->overlapped);
}

TEST(AllToAll, EnclosesWhatASolverFindsOnRandomDigraphs) {
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto nodes = static_cast<std::int32_t>(2 + seed % 7);
    ExpectEncloses(seed % 2 == 0 ? MakeRandomRegular(nodes, 2, random)
                                 : MakeRandomDigraph(nodes, 3 * nodes, 1 + seed % 4, random),
                   false);
  }
}

TEST(LongAllToAll, EnclosesWhatASolverFindsOn100RandomDigraphs) {
  for (const std::uint64_t seed : SeedsToTry(100, 100)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto nodes = static_cast<std::int32_t>(3 + seed % 10);
    ExpectEncloses(MakeRandomDigraph(nodes, 3 * nodes, 1 + seed % 3, random), false);
  }
}

// Skewed demands: most pairs have none, a few have much.
TEST(AllToAll, EnclosesWhatASolverFindsForUnequalDemands) {
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto nodes = static_cast<std::int32_t>(2 + seed % 7);
    const Digraph graph = MakeRandomDigraph(nodes, 3 * nodes, 1 + seed % 3, random);
    Demand demand(static_cast<std::size_t>(nodes * nodes), 0);
    for (std::int32_t pair = 0; pair < nodes * nodes; ++pair) {
      if (pair / nodes == pair % nodes || random() % 3 == 0) continue;
      demand[static_cast<std::size_t>(pair)] =
          static_cast<std::int64_t>(random() % (random() % 4 == 0 ? 100 : 5));
    }
    demand[1] += 1;
    const auto all = ComputeAllToAll(graph, {}, demand);
    ASSERT_TRUE(all) << all.error().message;
    const double best = SolveProgram(graph, demand);
    EXPECT_LE(all->rate.ToDouble(), best + kPrinted);
    EXPECT_GE(all->bound.ToDouble(), best - kPrinted);
    EXPECT_LE(all->bound.ToDouble(), all->rate.ToDouble() * 1.03);
    const auto cost = VerifyAllToAll(graph, *all);
    ASSERT_TRUE(cost) << cost.error().message;
    EXPECT_EQ(*Rational::Product(cost->overlapped, all->rate), Rational(1, 1));
    EXPECT_EQ(MakeAllToAllProgram("a", *all, nodes).error().code, ErrorCode::kUnsupported);
  }
}

TEST(AllToAll, RefusesDemandsOutOfRange) {
  const Digraph graph = Graph("Complete(2)");
  for (const Demand& demand :
       {Demand{0, 1, 1}, Demand{0, -1, 1, 0}, Demand{0, kMaxDemand + 1, 1, 0}, Demand{1, 1, 1, 0},
        Demand{0, 0, 0, 0}}) {
    const auto all = ComputeAllToAll(graph, {}, demand);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().code, ErrorCode::kInvalidArgument) << all.error().message;
  }
  const auto large = ComputeAllToAll(graph, {}, {0, kMaxDemand, 1, 0});
  ASSERT_TRUE(large);
  EXPECT_EQ(large->rate, Rational(1, kMaxDemand));
}

TEST(AllToAll, IsExactOnNetworksWithTranslations) {
  for (const std::string_view text :
       {"Complete(5)", "BiRing(2, 7)", "UniRing(2, 5)", "Circulant(13)", "Circulant(12, 1, 5)",
        "DirectedCirculant(4)", "Torus(3, 4)", "Product(BiRing(2, 5), UniRing(1, 3))",
        "Degree(UniRing(1, 4), 2)", "Bipartite(4)"}) {
    SCOPED_TRACE(text);
    ExpectEncloses(Graph(text), true);
  }
  // Links of different bandwidth.
  std::vector<Arc> arcs;
  for (std::int32_t i = 0; i < 12; ++i) {
    arcs.push_back({i, (i + 1) % 12, 3});
    arcs.push_back({i, (i + 5) % 12, 2});
    arcs.push_back({i, (i + 7) % 12, 7});
  }
  ExpectEncloses(Digraph(12, arcs), true);
}

// The values of Table A.1, printed with three digits.
TEST(AllToAll, GivesTheRatesOfTableA1) {
  const std::vector<std::pair<std::string_view, double>> exact{
      {"Product(BiRing(2, 8), UniRing(1, 4), UniRing(1, 4))", 5.21e-3},
      {"Product(UniRing(1, 4), UniRing(1, 4), UniRing(1, 4), UniRing(1, 8))", 5.58e-4},
      {"Power(Product(UniRing(1, 4), UniRing(1, 8)), 2)", 2.79e-4}};
  for (const auto& [text, rate] : exact) {
    const auto all = ComputeAllToAll(Graph(text));
    ASSERT_TRUE(all);
    EXPECT_EQ(all->rate, all->bound) << text;
    EXPECT_NEAR(all->rate.ToDouble(), rate, rate * 2e-3) << text;
  }
  const std::vector<std::pair<std::string_view, double>> enclosed{{"Line(Bipartite(4))", 5.71e-2},
                                                                  {"DistanceRegular(32)", 5.26e-2}};
  for (const auto& [text, rate] : enclosed) {
    const auto all = ComputeAllToAll(Graph(text));
    ASSERT_TRUE(all);
    EXPECT_LE(all->rate.ToDouble(), rate * 1.001) << text;
    EXPECT_GE(all->bound.ToDouble(), rate * 0.999) << text;
    EXPECT_LE(all->bound.ToDouble(), all->rate.ToDouble() * 1.01) << text;
  }
}

// The classic rates of tori: a ring of n nodes carries n^2 / 8 messages on its busiest link.
TEST(AllToAll, IsExactOnLargeTori) {
  const auto torus = ComputeAllToAll(Graph("Torus(8, 8, 16)"));
  ASSERT_TRUE(torus);
  EXPECT_EQ(torus->rate, Rational(1, 2048));
  EXPECT_EQ(torus->bound, torus->rate);
  EXPECT_EQ(ComputeAllToAll(Graph("Hamming(10, 2)"))->rate, Rational(1, 512));
}

TEST(AllToAll, KeepsToWholePartsOfMessages) {
  for (const std::string_view text : {"Circulant(13)", "Line(Bipartite(2))", "GenKautz(2, 9)"}) {
    SCOPED_TRACE(text);
    const Digraph graph = Graph(text);
    const auto any = ComputeAllToAll(graph);
    const auto whole = ComputeAllToAll(graph, {.parts = 4});
    ASSERT_TRUE(any && whole);
    EXPECT_LE(whole->rate, any->bound);
    for (const RoutingTree& tree : whole->routing) EXPECT_EQ(4 % tree.share.denominator(), 0);
    EXPECT_TRUE(VerifyAllToAll(graph, *whole));
  }
}

TEST(AllToAll, RefusesWrongRoutings) {
  const Digraph graph = Graph("BiRing(2, 5)");
  const auto all = ComputeAllToAll(graph);
  ASSERT_TRUE(all && VerifyAllToAll(graph, *all));
  const auto message = [&](auto change) {
    AllToAll changed = *all;
    change(changed);
    const auto cost = VerifyAllToAll(graph, changed);
    EXPECT_FALSE(cost);
    return cost ? "" : cost.error().message;
  };
  const auto has = [](const std::string& text, std::string_view what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  has(message([](AllToAll& a) { a.routing.pop_back(); }), "do not sum to 1");
  has(message([](AllToAll& a) { a.routing[0].parent[2] = 2; }), "is not a tree");
  has(message([](AllToAll& a) { a.routing[0].parent[2] = -1; }), "is not a tree");
  has(message([](AllToAll& a) { a.routing[0].parent[2] = 0; }), "no link from 0 to 2");
  has(message([](AllToAll& a) { a.routing[0].parent.pop_back(); }), "another number of nodes");
  has(message([](AllToAll& a) { a.routing[0].source = 5; }), "another number of nodes");
}

TEST(AllToAll, ReportsNetworksWithoutARouting) {
  EXPECT_EQ(ComputeAllToAll(Digraph(1, {})).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(ComputeAllToAll(Digraph(2, {{0, 1, 1}})).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(ComputeAllToAll(Graph("GenKautz(2, 2000)")).error().code,
            ErrorCode::kResourceExhausted);
}

TEST(AllToAllProgram, IsCorrectOnEveryNetwork) {
  std::mt19937_64 random(5);
  for (const std::string_view text :
       {"Complete(2)", "Complete(5)", "BiRing(2, 6)", "UniRing(1, 4)", "Circulant(9)",
        "Torus(3, 2)", "GenKautz(2, 7)", "Line(Bipartite(2))", "DistanceRegular(10)"}) {
    SCOPED_TRACE(text);
    const Digraph graph = Graph(text);
    const auto all = ComputeAllToAll(graph, {.parts = 4});
    ASSERT_TRUE(all);
    const auto made = MakeAllToAllProgram("alltoall", *all, graph.node_count());
    ASSERT_TRUE(made) << made.error().message;
    const program::Verdict verdict = program::Verify(*made);
    ASSERT_FALSE(verdict.violation) << verdict.violation->message;
    EXPECT_TRUE(verdict.has_postcondition);
    program::ReferenceRun run(*made, false, 2, random);
    EXPECT_TRUE(run.Run() && run.IsRight());
  }
}

TEST(AllToAllProgram, SendsOneMessageForEachLinkOfATree) {
  const Digraph graph = Graph("UniRing(1, 5)");
  const auto all = ComputeAllToAll(graph);
  const auto made = MakeAllToAllProgram("alltoall", *all, 5);
  ASSERT_TRUE(made);
  EXPECT_EQ(program::MeasureCost(*made).messages, 5 * 4);
  EXPECT_EQ(program::MeasureCost(*made).most_chunks_sent, 4 + 3 + 2 + 1);
}

TEST(AllToAllProgram, RefusesTooFineShares) {
  const Digraph graph = Graph("GenKautz(2, 7)");
  const auto made = MakeAllToAllProgram("alltoall", *ComputeAllToAll(graph), 7);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(made.error().message.find("--chunks"), std::string::npos);
}

}  // namespace
}  // namespace espalier::synthesis
