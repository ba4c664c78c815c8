#include "collective/synthesis/construction.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/synthesis/prediction.h"
#include "collective/synthesis/schedules/verifier.h"

namespace espalier::synthesis {
namespace {

Construction Parse(std::string_view text) {
  const auto parsed = ParseConstruction(text);
  EXPECT_TRUE(parsed) << text << ": " << parsed.error().message;
  return parsed.value_or(Construction());
}

TEST(Construction, IsWrittenAsItIsRead) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"Line(Circulant(16, 3, 4), 3)", "L^3(C(16,{3,4}))"},
      {"GenKautz(4, 1024)", "Pi_{4,1024}"},
      {"Power(Product(UniRing(1, 4), UniRing(1, 8)), 2)", "(UniRing(1,4)[]UniRing(1,8))^[]2"},
      {"Degree(BiRing(2, 5), 2)", "BiRing(2,5)*2"},
      {"Line(Bipartite(4))", "L(K_{4,4})"},
      {"Bidirectional(Line(Complete(3), 2))", "Bidirectional(L^2(K_3))"},
      {"Bfb(Degree(Complete(3), 2))", "K_3*2 by BFB"},
      {"Circulant(16)", "C(16,{3,4})"},
      {"Hamming(2, 3)", "H(2,3)"},
      {"Kautz(2, 3)", "K(2,3)"},
      {"DeBruijn(4, 2)", "DBJ(4,2)"},
      {"DistanceRegular(32)", "DistReg(4,32)"},
      {"Torus(3, 4)", "Torus(3,4)"},
      {"DirectedCirculant(4)", "DirectedCirculant(4)"},
  };
  for (const auto& [text, notation] : cases) {
    const Construction construction = Parse(text);
    EXPECT_EQ(FormatConstruction(construction), text);
    EXPECT_EQ(Notation(construction), notation);
    EXPECT_EQ(Parse(FormatConstruction(construction)), construction);
  }
  EXPECT_EQ(Parse(" Line ( Complete( 3 ) , 2 ) "), Parse("Line(Complete(3), 2)"));
}

TEST(Construction, NamesThePlaceOfASyntaxError) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "character 1: unknown name \"\""},
      {"Circle(3)", "character 7: unknown name \"Circle\""},
      {"Complete", "character 9: expected ("},
      {"Complete(", "character 10: expected a number"},
      {"Complete(3", "character 11: expected , or )"},
      {"Complete(3))", "character 12: text after the end"},
      {"Complete(-3)", "character 10: expected a number"},
      {"Complete(99999999999999999999)", "character 10: expected a number"},
      {"Complete()", "character 10: expected a number"},
      {"Complete(3, 4)", "character 15: Complete needs (nodes)"},
      {"Line(3)", "character 8: Line needs (base, times)"},
      {"Product(Complete(3))", "character 21: Product needs (base, base, ...)"},
      {"Degree(2, Complete(3))", "character 11: expected a number"},
  };
  for (const auto& [text, what] : cases) {
    const auto parsed = ParseConstruction(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(what), std::string::npos)
        << text << ": " << parsed.error().message;
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "Bfb(";
  EXPECT_NE(ParseConstruction(deep).error().message.find("too many levels"), std::string::npos);
}

// The formula is the exact cost of the verified schedule, or bounds it where it says so.
void ExpectAsPredicted(std::string_view text) {
  SCOPED_TRACE(text);
  const Construction construction = Parse(text);
  const auto prediction = Predict(construction);
  ASSERT_TRUE(prediction) << prediction.error().message;
  const auto network = BuildNetwork(construction);
  ASSERT_TRUE(network) << network.error().message;
  const Digraph& graph = network->graph;
  EXPECT_EQ(prediction->nodes, graph.node_count());
  EXPECT_EQ(prediction->degree, graph.degree());
  EXPECT_EQ(prediction->has_self_loops, graph.has_self_loops());
  EXPECT_LE(prediction->is_simple, graph.IsSimple());
  EXPECT_LE(prediction->is_bidirectional, graph.IsBidirectional());
  EXPECT_LE(prediction->is_reversible, !network->reversal.empty());
  for (const Collective collective :
       {Collective::kAllgather, Collective::kReduceScatter, Collective::kAllreduce}) {
    if (collective != Collective::kAllgather && !prediction->is_reversible) continue;
    const auto schedule = MakeSchedule(construction, collective);
    ASSERT_TRUE(schedule) << schedule.error().message;
    const auto cost = VerifySchedule(graph, *schedule);
    ASSERT_TRUE(cost) << cost.error().message;
    const int phases = collective == Collective::kAllreduce ? 2 : 1;
    const auto t_b = Rational::Product(prediction->t_b, Rational(phases, 1));
    EXPECT_EQ(cost->steps, phases * prediction->steps);
    EXPECT_LE(cost->t_b, *t_b) << cost->t_b.ToString() << " " << t_b->ToString();
    if (prediction->is_exact) {
      EXPECT_EQ(cost->t_b, *t_b) << cost->t_b.ToString();
    }
    EXPECT_EQ(cost->duplicate_chunks, 0);
  }
}

TEST(Prediction, IsTheCostOfTheVerifiedScheduleOfFamilies) {
  for (const std::string_view text :
       {"Complete(2)",          "Complete(7)",          "Bipartite(2)",
        "Bipartite(5)",         "BiRing(2, 3)",         "BiRing(2, 8)",
        "BiRing(4, 7)",         "UniRing(1, 2)",        "UniRing(1, 6)",
        "UniRing(3, 4)",        "Circulant(13)",        "Circulant(20, 1, 6, 8)",
        "DirectedCirculant(1)", "DirectedCirculant(4)", "GenKautz(2, 9)",
        "GenKautz(3, 12)",      "DeBruijn(2, 4)",       "DeBruijn(3, 2)",
        "Kautz(2, 0)",          "Kautz(2, 3)",          "Kautz(3, 2)",
        "Hamming(2, 4)",        "Hamming(5, 2)",        "Torus(4)",
        "Torus(2, 2)",          "Torus(3, 2, 5)",       "DistanceRegular(35)"}) {
    ExpectAsPredicted(text);
  }
}

TEST(Prediction, IsTheCostOfTheVerifiedScheduleOfExpansions) {
  for (const std::string_view text : {"Line(Bipartite(2))",
                                      "Line(Bipartite(2), 3)",
                                      "Line(Complete(4), 2)",
                                      "Line(DirectedCirculant(2), 2)",
                                      "Line(Circulant(7), 1)",
                                      "Line(BiRing(4, 3))",
                                      "Line(UniRing(2, 4))",
                                      "Line(UniRing(2, 3), 2)",
                                      "Line(UniRing(1, 5))",
                                      "Degree(UniRing(1, 4), 2)",
                                      "Degree(Complete(3), 2)",
                                      "Degree(BiRing(2, 5), 3)",
                                      "Degree(UniRing(2, 3), 2)",
                                      "Degree(Line(Bipartite(2)), 2)",
                                      "Line(Degree(UniRing(1, 4), 2))",
                                      "Degree(Degree(UniRing(1, 3), 2), 2)",
                                      "Power(UniRing(1, 4), 2)",
                                      "Power(Complete(3), 3)",
                                      "Power(GenKautz(2, 6), 2)",
                                      "Power(Line(Complete(3)), 2)",
                                      "Line(Power(UniRing(1, 3), 2), 2)",
                                      "Power(Degree(UniRing(1, 3), 2), 2)",
                                      "Product(BiRing(2, 5), UniRing(1, 3))",
                                      "Product(Complete(3), Bipartite(2), UniRing(1, 2))",
                                      "Product(GenKautz(2, 6), Complete(2))",
                                      "Product(Line(Complete(3)), Complete(3))",
                                      "Bidirectional(UniRing(1, 5))",
                                      "Bidirectional(Line(Complete(3)))",
                                      "Bidirectional(Line(Bipartite(2), 2))",
                                      "Bidirectional(DirectedCirculant(3))",
                                      "Bidirectional(Power(UniRing(1, 3), 2))",
                                      "Bidirectional(Degree(UniRing(1, 3), 2))",
                                      "Bfb(Degree(BiRing(2, 5), 2))",
                                      "Bfb(Power(GenKautz(2, 6), 2))",
                                      "Bfb(Bidirectional(Line(Bipartite(2), 2)))"}) {
    ExpectAsPredicted(text);
  }
}

// Definition 14 gives 7/6 on the square of Pi_{2,6}, the best BFB schedule 35/36.
TEST(Prediction, KnowsWhereBfbBeatsTheFormulaOfAnExpansion) {
  EXPECT_EQ(Predict(Parse("Power(GenKautz(2, 6), 2)"))->t_b, Rational(7, 6));
  EXPECT_EQ(Predict(Parse("Bfb(Power(GenKautz(2, 6), 2))"))->t_b, Rational(35, 36));
  // Two steps instead of three at the same bandwidth, as in Table 3.5.
  EXPECT_EQ(Predict(Parse("Degree(BiRing(2, 5), 2)"))->steps, 3);
  EXPECT_EQ(Predict(Parse("Bfb(Degree(BiRing(2, 5), 2))"))->steps, 2);
}

TEST(Construction, RefusesExpansionsThatDoNotApply) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {"Line(DeBruijn(2, 2))", "self-loops"},
      {"Degree(GenKautz(2, 7), 2)", "self-loops"},
      {"Product(GenKautz(2, 7), Complete(2))", "self-loops"},
      {"Degree(Complete(3), 1)", "out of range"},
      {"Power(Complete(3), 1)", "out of range"},
      {"Power(Complete(3), 100)", "16384 nodes"},
      {"Line(Complete(40), 3)", "16384 nodes"},
      {"Line(Complete(4), 15)", "at most 14"},
      {"Degree(Complete(60), 300)", "16384 nodes"},
      {"Bidirectional(GenKautz(2, 9))", "no isomorphism"},
      {"GenKautz(4, 4)", "out of range"},
  };
  for (const auto& [text, what] : cases) {
    for (const auto& message :
         {BuildNetwork(Parse(text)).map([](const auto&) { return 0; }).error().message,
          Predict(Parse(text)).map([](const auto&) { return 0; }).error().message,
          MakeSchedule(Parse(text), Collective::kAllgather)
              .map([](const auto&) { return 0; })
              .error()
              .message}) {
      EXPECT_NE(message.find(what), std::string::npos) << text << ": " << message;
    }
  }
  EXPECT_NE(MakeSchedule(Parse("Power(GenKautz(2, 6), 2)"), Collective::kAllreduce)
                .error()
                .message.find("schedule make bfb"),
            std::string::npos);
  EXPECT_EQ(MakeSchedule(Parse("Complete(3)"), Collective::kReduce).error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace espalier::synthesis
