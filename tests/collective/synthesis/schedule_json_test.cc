#include "collective/synthesis/schedules/schedule_json.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/synthesis/construction.h"
#include "collective/synthesis/schedules/bfb.h"

namespace espalier::synthesis {
namespace {

using fabric::Topology;

struct Subject {
  Digraph graph;
  Topology topology;
};

Subject Make(std::string_view construction) {
  Digraph graph = BuildNetwork(*ParseConstruction(construction))->graph;
  auto topology = Topology::Build(WriteNetwork("net", graph, BitsPerSecond{1'000'000'000}));
  return {std::move(graph), std::move(*topology)};
}

TEST(ScheduleJson, IsReadAsItWasWritten) {
  for (const std::string_view text : {"Bipartite(2)", "GenKautz(2, 9)", "Circulant(16)"}) {
    const Subject subject = Make(text);
    for (const Collective collective :
         {Collective::kAllgather, Collective::kReduceScatter, Collective::kAllreduce}) {
      const auto schedule = MakeBfbSchedule(subject.graph, collective);
      const auto cost = VerifySchedule(subject.graph, *schedule);
      const auto json = FormatScheduleJson(subject.topology, *schedule, *cost);
      ASSERT_TRUE(json) << json.error().message;
      const auto read = ParseScheduleJson(*json, "f", subject.topology);
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(read->schedule.collective, collective);
      EXPECT_EQ(read->schedule.chunks, schedule->chunks);
      EXPECT_EQ(read->schedule.reduce_steps, schedule->reduce_steps);
      EXPECT_EQ(read->t_b, cost->t_b);
      const auto again = VerifyScheduleFile(subject.graph, *read);
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(FormatScheduleJson(subject.topology, read->schedule, *again), *json);
    }
  }
}

constexpr std::string_view kPair =
    R"({"collective": "allgather", "chunks": 2, "t_l": "1", "t_b": "1/2", "steps": [
{"sends": [{"shard": "n0", "from": "n0", "to": "n1"},
{"shard": "n1", "from": "n1", "to": "n0", "end": "1/2"},
{"shard": "n1", "from": "n1", "to": "n0", "begin": "1/2"}]}]})";

TEST(ScheduleJson, HasWholeShardsAsDefault) {
  const Subject pair = Make("Complete(2)");
  const auto read = ParseScheduleJson(kPair, "f", pair.topology);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->schedule.sends[0], (Send{0, 0, 1, 1, 0, 2}));
  EXPECT_EQ(read->schedule.sends[2], (Send{1, 1, 0, 1, 1, 2}));
  EXPECT_TRUE(VerifyScheduleFile(pair.graph, *read));
}

TEST(ScheduleJson, NamesThePlaceOfAnError) {
  const Subject pair = Make("Complete(2)");
  const std::vector<std::array<std::string_view, 3>> cases{
      {"allgather", "broadcast", "f:1:16: unknown collective"},
      {"\"chunks\": 2", "\"chunks\": 0", "f:1:39: "},
      {"\"chunks\": 2", "\"chunks\": 99999999999", "f:1:39: "},
      {"\"t_l\": \"1\"", "\"t_l\": \"1/0\"", "f:1:49: not a rational number"},
      {"\"t_b\": \"1/2\"", "\"t_b\": \"-1\"", "f:1:61: not a rational number"},
      {"\"from\": \"n0\"", "\"from\": \"n7\"", "f:2:36: the topology has no node \"n7\""},
      {"\"end\": \"1/2\"", "\"end\": \"1/3\"", "f:3:50: not a multiple of 1/2 from 0 to 1"},
      {"\"end\": \"1/2\"", "\"end\": \"3/2\"", "f:3:50: not a multiple of 1/2 from 0 to 1"},
      {"\"end\": \"1/2\"", "\"end\": \"0\"", "f:3:50: the part of the shard is empty"},
      {"\"sends\"", "\"send\"", "f:2:"},
      {"}]}]}", "}]}, {\"reduce\": true, \"sends\": []}]}",
       "a step that reduces follows one that does not"},
  };
  for (const auto& [from, to, what] : cases) {
    std::string text(kPair);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto read = ParseScheduleJson(text, "f", pair.topology);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(read.error().message.find(what), std::string::npos) << read.error().message;
  }
}

TEST(ScheduleJson, IsRefusedIfItsCostIsNotWhatItStates) {
  const Subject pair = Make("Complete(2)");
  for (const auto& [from, to] :
       {std::pair("\"t_b\": \"1/2\"", "\"t_b\": \"1/3\""), {"\"t_l\": \"1\"", "\"t_l\": \"2\""}}) {
    std::string text(kPair);
    text.replace(text.find(from), std::string_view(from).size(), to);
    const auto cost = VerifyScheduleFile(pair.graph, *ParseScheduleJson(text, "f", pair.topology));
    ASSERT_FALSE(cost);
    EXPECT_EQ(cost.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_NE(cost.error().message.find("but the schedule has 1 and 1/2"), std::string::npos)
        << cost.error().message;
  }
}

TEST(ScheduleJson, IsRefusedAboveItsLimit) {
  const Subject pair = Make("Complete(2)");
  Schedule schedule = ParseScheduleJson(kPair, "f", pair.topology)->schedule;
  schedule.sends.resize(kMaxScheduleJson / 30 + 1, schedule.sends.front());
  const auto json = FormatScheduleJson(pair.topology, schedule, {});
  ASSERT_FALSE(json);
  EXPECT_EQ(json.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace espalier::synthesis
