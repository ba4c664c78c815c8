#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "collective/forest/files/forest_binary.h"
#include "collective/forest/files/forest_json.h"
#include "collective/forest/files/parse_forest_json.h"
#include "collective/forest/model/exact_text.h"
#include "collective/forest/planner/planner.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

using fabric::Topology;
using testing::HasSubstr;
using testing::StartsWith;

VerifiedSchedule MakeOrDie(const Topology& topology, const ScheduleOptions& options = {}) {
  Result<VerifiedSchedule> made = MakeTreeSchedule(topology, options);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(*made);
}

class ReferenceSchedule : public testing::TestWithParam<ReferenceRow> {};

// Computes a schedule by any construction, in the units of files.
TEST_P(ReferenceSchedule, EqualsTheTable) {
  const ReferenceRow& row = GetParam();
  const Topology topology = BuildTopology(MakeReferenceTopology(row.name));
  // 1 per Gbit/s is 8 per GB/s of the table.
  const bool gigabytes = PerTableUnit(row.name, MakeReferenceProblem(row.name), Rational(1, 1)) !=
                         *MakeReferenceProblem(row.name).PerGbps(Rational(1, 1));
  const auto in_table_units = [&](const Rational& per_gbps) {
    return *Rational::Product(per_gbps, Rational(gigabytes ? 8 : 1, 1));
  };
  const TreeSchedule free = MakeOrDie(topology, {.height_steps = 10'000}).schedule;
  EXPECT_EQ(static_cast<int>(free.ranks.size()), row.ranks);
  EXPECT_EQ(in_table_units(free.bound_inverse_rate).ToString(), row.inverse_rate);
  EXPECT_EQ(in_table_units(free.inverse_rate).ToString(), row.inverse_rate);
  EXPECT_EQ(free.trees_per_weight, row.trees);
  EXPECT_EQ(in_table_units(*Rational::Quotient(Rational(1, 1), free.tree_gbps)).ToString(),
            row.scale);
  for (std::size_t k = 1; k <= row.fixed_scales.size(); ++k) {
    const TreeSchedule fixed =
        MakeOrDie(topology,
                  {.trees_per_weight = static_cast<std::int64_t>(k), .height_steps = 10'000})
            .schedule;
    EXPECT_EQ(in_table_units(*Rational::Quotient(Rational(1, 1), fixed.tree_gbps)).ToString(),
              row.fixed_scales[k - 1])
        << "k=" << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, ReferenceSchedule, testing::ValuesIn(ReferenceRows()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(MakeTreeSchedule, RefusesWhatMemoryCannotHoldBeforeItBegins) {
  const Topology topology = BuildTopology(MakeReferenceTopology("a100_4"));
  int reports = 0;
  const Control control{.cancelled = {}, .progress = [&](std::string_view, double) { ++reports; }};
  const auto made = MakeTreeSchedule(topology, {.memory_limit_bytes = 100'000}, control);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(made.error().message, HasSubstr("a forest over 32 ranks needs about "));
  EXPECT_EQ(reports, 0);
}

TEST(ForestFiles, KeepFreshFormatsByteForByte) {
  for (const char* name : {"a100_2", "mi250_8p8", "figB1", "uring8", "clos4x4s3_40"}) {
    const Topology topology = BuildTopology(MakeReferenceTopology(name));
    for (const Collective collective : {Collective::kReduceScatter, Collective::kAllreduce}) {
      const TreeSchedule plan =
          MakeOrDie(topology, {.collective = collective, .height_steps = 10'000}).schedule;
      const std::string json = *FormatForestJson(topology, plan, {});
      const Result<TreeSchedule> from_json = ParseForestJson(json, "f", topology);
      ASSERT_TRUE(from_json.has_value()) << from_json.error().message;
      EXPECT_EQ(*FormatForestJson(topology, *from_json, {}), json) << name;
      const std::string bytes = EncodeForest(topology, plan);
      const Result<TreeSchedule> from_bytes = DecodeForest(bytes, "f", topology);
      ASSERT_TRUE(from_bytes.has_value()) << from_bytes.error().message;
      EXPECT_EQ(EncodeForest(topology, *from_bytes), bytes) << name;
      EXPECT_EQ(*FormatForestJson(topology, *from_bytes, {}), json) << name;
    }
  }
}

TEST(ForestFiles, RefuseJsonThatIsTooLarge) {
  const Topology topology = BuildTopology(MakeReferenceTopology("a100_128"));
  const VerifiedSchedule made = MakeOrDie(topology);
  const auto json = FormatForestJson(topology, made.schedule, {});
  ASSERT_FALSE(json.has_value());
  EXPECT_THAT(json.error().message, HasSubstr("--format binary"));
  EXPECT_LT(EncodeForest(topology, made.schedule).size(), 4'000'000U);
}

struct Edit {
  std::string from;
  std::string to;
  std::string error;
};

TEST(ForestJson, NamesThePlaceOfWhatIsWrong) {
  const Topology topology = BuildTopology(MakeReferenceTopology("ring8"));
  const std::string good = *FormatForestJson(topology, MakeOrDie(topology).schedule, {});
  const std::vector<Edit> edits = {
      {"allgather", "gossip", "unknown collective \"gossip\""},
      {"\"labels\"", "\"magic\"", "unknown method \"magic\""},
      {"\"trees_per_root\":2", "\"trees_per_root\":0", "trees_per_root"},
      {"\"trees_per_root\"", "\"tree_per_root\"", "tree_per_root"},
      {"\"tree_gbps\":\"1/7\"", "\"tree_gbps\":\"1/0\"", "\"1/0\" is not a positive rational"},
      {"\"tree_gbps\":\"1/7\"", "\"tree_gbps\":\"-1/7\"", "\"-1/7\" is not a positive rational"},
      {"\"tree_gbps\":\"1/7\"", "\"tree_gbps\":7", "tree_gbps"},
      {"\"bound\":{", "\"bound\":{\"more\":1,", "more"},
      {"\"cut\":[\"n1\"", "\"cut\":[\"n9\"", "the topology has no node \"n9\""},
      {"\"ranks\":[\"n0\"", "\"ranks\":[0", "the topology has no node \"0\""},
      {"\"weights\":[1", "\"weights\":[-1", "weight"},
      {"\"root\":\"n0\"", "\"root\":\"x\"", "the topology has no node \"x\""},
      {"\"root\":\"n0\"", "\"stem\":\"n0\"", "root"},
      {"\"root\":\"n0\",\"count\":", "\"root\":\"n0\",\"count\":-", "count"},
      {"\"path\":[\"n0\",\"n1\"]", "\"path\":[\"n2\",\"n1\"]",
       "the path does not begin at \"from\""},
      {"\"path\":[\"n0\",\"n1\"]", "\"path\":[\"n0\"]", "the path does not end at \"to\""},
      {"\"path\":[\"n0\",\"n1\"]", "\"path\":[]", "the path does not end at \"to\""},
      {"\"path\":[\"n0\",\"n1\"]", "\"path\":7", "path"},
      {"\"from\":\"n0\",\"to\":\"n1\",\"path\":[\"n0\",\"n1\"]",
       "\"from\":\"n0\",\"to\":\"n7\",\"path\":[\"n0\",\"n7\"]", "n7 has two parents in this tree"},
      {"\"trees\":[", "\"trees\":[7,", "expected an object"},
      {"\"trees\":[", "\"trees\":[{\"phase\":\"reduce-scatter\",\"root\":\"n0\",\"edges\":[]},",
       "field \"phase\" must name"},
      {"\"trees\":[", "\"trees\":{", "f:1:"},
      {"}}", "}", "f:1:"},
  };
  for (const Edit& edit : edits) {
    std::string text = good;
    const std::size_t at = edit.from == "}}" ? text.rfind(edit.from) : text.find(edit.from);
    ASSERT_NE(at, std::string::npos) << edit.from;
    text.replace(at, edit.from.size(), edit.to);
    const Result<TreeSchedule> read = ParseForestJson(text, "f", topology);
    ASSERT_FALSE(read.has_value()) << edit.to;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(read.error().message, StartsWith("f:1:")) << edit.to;
    EXPECT_THAT(read.error().message, HasSubstr(edit.error)) << edit.to;
  }
}

TEST(ForestBinary, RefusesOtherFilesAndTrailingBytes) {
  const Topology topology = BuildTopology(MakeReferenceTopology("ring8"));
  const std::string good = EncodeForest(topology, MakeOrDie(topology).schedule);
  for (const std::string& bad :
       {std::string(), std::string("ESPFRST"), std::string("ESPFRST2") + good.substr(8)}) {
    EXPECT_EQ(DecodeForest(bad, "f", topology).error().message, "f:byte 0: not a forest file");
  }
  EXPECT_THAT(DecodeForest(good + "x", "f", topology).error().message,
              HasSubstr("there is extra data after the forest"));
  // A node with another name.
  std::string renamed = good;
  renamed[renamed.find("n0") + 1] = 'x';
  EXPECT_THAT(DecodeForest(renamed, "f", topology).error().message,
              HasSubstr("the topology has no node \"nx\""));
}

TEST(ExactText, ReadsRationalsAndNothingElse) {
  EXPECT_EQ(ParseRational("7/2"), Rational(7, 2));
  EXPECT_EQ(ParseRational("14/4"), Rational(7, 2));
  EXPECT_EQ(ParseRational("0"), Rational());
  EXPECT_EQ(ParseRational("170141183460469231731687303715884105727")->ToString(),
            "170141183460469231731687303715884105727");
  for (const char* bad : {"", "/", "1/", "/1", "1/0", "-1", "1.5", "1/2/3", " 1", "1e3",
                          "170141183460469231731687303715884105728"}) {
    EXPECT_FALSE(ParseRational(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace espalier::forest
