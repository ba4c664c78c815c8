#include "collective/forest/files/forest_json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collective/forest/files/parse_forest_json.h"
#include "common/files/json_writer.h"
#include "tests/collective/forest/files/small_schedule.h"

namespace espalier::forest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kHead =
    R"({"collective":"allreduce","compute_nodes":3,"method":"general","share":true,)"
    R"("in_network":true,"bound":{"inverse_rate":"1/10","algbw_gbps":"5","cut":["a"]},)"
    R"("trees_per_root":2,"tree_gbps":"5/2",)"
    R"("achieved":{"inverse_rate":"1/5","algbw_gbps":"5/2","fraction_of_bound":"1/2"},)"
    R"("height":{"max":2,"mean":1.5},"unroutable_edges":3,)"
    R"("ranks":["a","b","c"],"weights":[1,0,0],)";
constexpr std::string_view kProof =
    R"("proof":{"better_possible":true,"best_algbw_gbps":"11/2","exact":true,"parts":3},)";
// A star and a chain up, two stars down.
constexpr std::string_view kTrees =
    R"("trees":[{"phase":"reduce-scatter","root":"a","count":1,"height":1,"edges":[)"
    R"({"from":"b","to":"a","path":["b","s","a"]},)"
    R"({"from":"c","to":"a","path":["c","s","a"],"added_at":"s"}]},)"
    R"({"phase":"reduce-scatter","root":"a","count":1,"height":2,"edges":[)"
    R"({"from":"b","to":"a","path":["b","s","a"]},)"
    R"({"from":"c","to":"b","path":["c","s","b"],"added_at":"s"}]},)"
    R"({"phase":"allgather","root":"a","count":2,"height":1,"edges":[)"
    R"({"from":"a","to":"b","path":["a","s","b"]},)"
    R"({"from":"a","to":"c","path":["a","s","c"],"copied_at":"s"}]}],)";
constexpr std::string_view kSeconds =
    R"("seconds":{"bound":1.0,"switch_removal":2.0,"packing":3.0,"height":4.0,"verify":5.0}})";

std::string Text() { return fmt::format("{}{}{}{}", kHead, kProof, kTrees, kSeconds); }

// Replaces the first occurrence.
std::string Replace(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TreeSchedule ParseOrDie(const std::string& text) {
  auto parsed = ParseForestJson(text, "f", MakeSmallTopology());
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
  return parsed ? std::move(*parsed) : TreeSchedule();
}

std::string ErrorOf(const std::string& text) {
  const auto parsed = ParseForestJson(text, "f", MakeSmallTopology());
  return parsed.has_value() ? "none" : parsed.error().message;
}

// Describes the routes of a phase: "FROM TO: COUNT over FIRST>SECOND ...", from parent to child.
std::vector<std::string> RoutesOf(const TreeSchedule& schedule, const Phase& phase) {
  const fabric::Topology topology = MakeSmallTopology();
  const RoutingTable& routes = schedule.forests[phase.forest].routes;
  std::vector<std::string> lines;
  for (std::size_t arc = 0; arc < routes.ArcCount(); ++arc) {
    for (const Route& route : routes.Routes(arc)) {
      std::string line =
          fmt::format("{} {}: {} over", routes.From(arc), routes.To(arc), route.count);
      for (const std::int32_t hop : routes.Hops(route)) {
        const Channel& channel = phase.channels[static_cast<std::size_t>(hop)];
        line += " " + topology.node(channel.from).id + ">" + topology.node(channel.to).id;
      }
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

TEST(FormatForestJson, WritesEveryField) {
  const AllreduceProof proof{
      .exact_gbps = Rational(11, 2), .parts = 3, .best_gbps = 5.5, .better_possible = true};
  EXPECT_EQ(*FormatForestJson(MakeSmallTopology(), MakeSmallSchedule(), {1, 2, 3, 4, 5}, proof),
            Text());
}

TEST(FormatForestJson, WritesAProofBySolverAsADecimal) {
  io::JsonWriter writer;
  writer.BeginObject();
  WriteProof({.best_gbps = 5.5}, writer);
  writer.EndObject();
  EXPECT_EQ(writer.Text(),
            R"({"proof":{"better_possible":false,"best_algbw_gbps":5.5,"exact":false,"parts":0}})");
}

TEST(ParseForestJson, ReadsEveryField) {
  const TreeSchedule made = MakeSmallSchedule();
  const TreeSchedule read = ParseOrDie(Text());
  EXPECT_EQ(read.collective, made.collective);
  EXPECT_EQ(read.ranks, made.ranks);
  EXPECT_EQ(read.weights, made.weights);
  EXPECT_TRUE(read.on_share);
  EXPECT_TRUE(read.in_network);
  EXPECT_EQ(read.bound_inverse_rate, made.bound_inverse_rate);
  EXPECT_EQ(read.cut, made.cut);
  EXPECT_EQ(read.trees_per_weight, 2);
  EXPECT_EQ(read.tree_gbps, made.tree_gbps);
  EXPECT_EQ(read.inverse_rate, made.inverse_rate);
  ASSERT_EQ(read.phases.size(), 2U);
  for (std::size_t p = 0; p < 2; ++p) {
    EXPECT_EQ(read.phases[p].forest, p);
    EXPECT_EQ(read.phases[p].reversed, p == 0);
    EXPECT_EQ(read.forests[p].classes, made.forests[p].classes);
    EXPECT_EQ(read.forests[p].parents, made.forests[p].parents);
    EXPECT_EQ(read.forests[p].unroutable_edges, p == 0 ? 3 : 0);
  }
  // Equal routes of consecutive trees are one.
  EXPECT_THAT(RoutesOf(read, read.phases[0]),
              ElementsAre("0 1: 2 over s>a b>s", "0 2: 1 over s>a c>s", "1 2: 1 over s>b c>s"));
  EXPECT_THAT(RoutesOf(read, read.phases[1]),
              ElementsAre("0 1: 2 over a>s s>b", "0 2: 2 over a>s s>c"));
  std::vector<std::string> copies;
  for (const CopyPoint& copy : read.stated_copies.value()) {
    copies.push_back(fmt::format("phase {} class {} child {} at {}", copy.phase, copy.tree_class,
                                 copy.child, copy.at.value()));
  }
  EXPECT_THAT(copies, ElementsAre("phase 0 class 0 child 2 at 3", "phase 0 class 1 child 2 at 3",
                                  "phase 1 class 0 child 2 at 3"));
}

TEST(ParseForestJson, TakesAllComputeNodesAndEqualWeightsWhereNoneAreNamed) {
  const TreeSchedule read = ParseOrDie(
      Replace(Replace(Text(), R"("ranks":["a","b","c"],)", ""), R"("weights":[1,0,0],)", ""));
  EXPECT_EQ(read.ranks, MakeSmallSchedule().ranks);
  EXPECT_THAT(read.weights, ElementsAre(1, 1, 1));
  EXPECT_FALSE(ParseOrDie(Replace(Text(), R"("share":true,)", "")).on_share);
}

TEST(ParseForestJson, TellsPhasesApart) {
  // A collective of one phase needs no names of phases.
  std::string down = Replace(Text(), "allreduce", "allgather");
  const std::size_t begin = down.find(R"({"phase":"reduce-scatter")");
  down.erase(begin, down.find(R"({"phase":"allgather")") - begin);
  for (const std::string& text : {down, Replace(down, R"("phase":"allgather",)", "")}) {
    const TreeSchedule read = ParseOrDie(text);
    ASSERT_EQ(read.phases.size(), 1U);
    EXPECT_FALSE(read.phases[0].reversed);
    EXPECT_THAT(*FormatForestJson(MakeSmallTopology(), read, {}), Not(HasSubstr("phase")));
    EXPECT_THAT(RoutesOf(read, read.phases[0]),
                ElementsAre("0 1: 2 over a>s s>b", "0 2: 2 over a>s s>c"));
  }
  EXPECT_EQ(ErrorOf(Replace(down, R"("phase":"allgather")", R"("phase":"reduce-scatter")")),
            "f:1:462: field \"phase\" must name a phase of the collective (\"reduce-scatter\" or "
            "\"allgather\")");
}

struct Edit {
  std::string from;
  std::string to;
  std::string error;
};

TEST(ParseForestJson, NamesThePlaceOfWhatIsWrong) {
  const std::vector<Edit> edits = {
      {R"("height":{)", R"("height":{"more":1,)",
       "f:1:282: unknown field \"more\" (known fields: max, mean)"},
      {R"("achieved":{)", R"("achieved":{"more":1,)",
       "f:1:205: unknown field \"more\" (known fields: algbw_gbps, cut, fraction_of_bound, "
       "inverse_rate)"},
      {R"("proof":{)", R"("proof":{"more":1,)",
       "f:1:372: unknown field \"more\" (known fields: best_algbw_gbps, better_possible, exact, "
       "parts)"},
      {R"("seconds":{)", R"("seconds":{"more":1,)",
       "f:1:971: unknown field \"more\" (known fields: bound, height, packing, switch_removal, "
       "verify)"},
      {R"("tree_gbps":"5/2")", R"("tree_gbps":"0")",
       "f:1:187: \"0\" is not a positive rational number (write \"7/2\" or \"3\")"},
      {R"("cut":["a"])", R"("cut":["x"])", "f:1:150: the topology has no node \"x\""},
      {R"("ranks":["a")", R"("ranks":[")" + std::string(100, 'x') + '"',
       "f:1:332: the topology has no node \"" + std::string(80, 'x') + "\""},
      {R"("weights":[1,)", R"("weights":[1.5,)",
       "f:1:356: field \"weight\" must be a whole number from 0 to 4611686018427387903"},
      {R"("count":1)", R"("count":0)",
       "f:1:498: field \"count\" must be a whole number from 1 to 4611686018427387903"},
      {R"("root":"a")", R"("root":"s")", "f:1:486: s is no rank"},
      {R"("from":"b")", R"("from":"s")", "f:1:528: s is no rank"},
      {R"("path":["b","s","a"])", R"("path":["s","a"])",
       "f:1:549: the path does not begin at \"from\""},
      {R"("path":["b","s","a"])", R"("path":["b","s"])",
       "f:1:520: the path does not end at \"to\""},
      {R"("added_at":"s")", R"("added_at":"x")", "f:1:616: the topology has no node \"x\""},
      {R"("added_at":"s")", R"("copied_at":"s")",
       "f:1:605: unknown field \"copied_at\" (known fields: added_at, from, path, to)"},
      {R"("in_network":true,)", "",
       "f:1:587: unknown field \"added_at\" (known fields: from, path, to)"},
      {R"("phase":"allgather",)", "",
       "f:1:793: field \"phase\" must name a phase of the collective (\"reduce-scatter\" or "
       "\"allgather\")"},
      {R"("achieved":)", R"("attained":)", "f:1:1: field \"achieved\" is missing"},
  };
  for (const Edit& edit : edits) {
    EXPECT_EQ(ErrorOf(Replace(Text(), edit.from, edit.to)), edit.error) << edit.to;
  }
}

}  // namespace
}  // namespace espalier::forest
