#include "controller/state/flows/flow_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

constexpr AgentId kAgent{3};

Flow FlowOf(AgentId agent, std::uint64_t local) {
  Flow flow;
  flow.agent = agent;
  flow.local = wire::LocalFlowId(local);
  return flow;
}

wire::FlowProgress ProgressOf(std::uint64_t local, std::uint64_t remaining) {
  return {.id = wire::LocalFlowId(local), .remaining_bytes = remaining};
}

TEST(FlowTable, ListsFlowsOfAnAgentInOrderOfTheirIds) {
  FlowTable table;
  for (const std::uint64_t local : {7, 2, 9, 4}) table.Open(FlowOf(kAgent, local));
  std::vector<std::uint64_t> ids;
  for (const FlowSlot slot : table.OfAgent(kAgent)) ids.push_back(table.At(slot).local.value());
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{2, 4, 7, 9}));
  EXPECT_TRUE(table.OfAgent(AgentId(0)).empty());
  EXPECT_TRUE(table.OfAgent(AgentId(99)).empty());
}

TEST(FlowTable, TakesProgressInAnyOrderAndSkipsUnknownFlows) {
  FlowTable table;
  const FlowSlot two = table.Open(FlowOf(kAgent, 2));
  const FlowSlot five = table.Open(FlowOf(kAgent, 5));
  const FlowSlot other = table.Open(FlowOf(AgentId(4), 5));
  table.TakeProgress(
      kAgent,
      std::vector{ProgressOf(5, 50), ProgressOf(3, 30), ProgressOf(2, 20), ProgressOf(6, 60)},
      TimePoint{});
  EXPECT_EQ(table.ActivityOf(two).remaining_bytes, 20U);
  EXPECT_EQ(table.ActivityOf(five).remaining_bytes, 50U);
  EXPECT_EQ(table.ActivityOf(other).remaining_bytes, 0U);
  table.TakeProgress(AgentId(99), std::vector{ProgressOf(5, 1)}, TimePoint{});
}

TEST(FlowTable, ReturnsTheFlowsThatAreDueForReview) {
  FlowTable table;
  const FlowSlot one = table.Open(FlowOf(kAgent, 1));
  const FlowSlot two = table.Open(FlowOf(kAgent, 2));
  const TimePoint now{std::chrono::hours(1)};
  const auto due_at = [&](TimePoint time) {
    const auto due =
        table.TakeProgress(kAgent, std::vector{ProgressOf(1, 10), ProgressOf(2, 20)}, time).due;
    return std::vector<FlowSlot>(due.begin(), due.end());
  };
  EXPECT_EQ(due_at(now), (std::vector{one, two}));
  table.IgnoreReportsBefore(one, now + std::chrono::seconds(1));
  EXPECT_EQ(due_at(now), std::vector{two});
  EXPECT_EQ(table.ActivityOf(one).remaining_bytes, 10U);  // the report is taken nevertheless
  EXPECT_EQ(due_at(now + std::chrono::seconds(1)), (std::vector{one, two}));
  table.IgnoreReportsBefore(one, TimePoint::max());
  table.Close(one);
  ASSERT_EQ(table.Open(FlowOf(kAgent, 1)), one);  // another flow
  EXPECT_EQ(due_at(now), (std::vector{one, two}));
}

TEST(JobNames, KeepTheirNumbersWhileFlowsAreOpenAndTheLatestIdleOnesAfter) {
  JobNames names;
  const std::uint32_t busy = names.Intern("busy", 1);
  names.Begin(busy);
  const std::uint32_t others = names.Intern("idle", 2);
  std::map<std::string, std::uint32_t> numbers;
  for (int i = 0; i < 1'000; ++i) {
    const std::string name = "j" + std::to_string(i);
    const std::uint32_t job = numbers[name] = names.Intern(name, 1);
    names.Begin(job);
    EXPECT_EQ(names.At(job), name);
    names.End(job);
    const auto forgotten = names.TakeForgotten();
    EXPECT_EQ(forgotten.size(), i < static_cast<int>(JobNames::kMaxIdle) ? 0U : 1U) << i;
    for (const std::uint32_t other : forgotten) EXPECT_EQ(names.At(other), "");
  }
  EXPECT_LE(names.size(), JobNames::kMaxIdle + 5);
  for (int i = 1'000 - static_cast<int>(JobNames::kMaxIdle); i < 1'000; ++i) {
    const std::string name = "j" + std::to_string(i);
    EXPECT_EQ(names.Intern(name, 2), numbers[name]) << name;
  }
  EXPECT_EQ(names.Intern("busy", 3), busy);
  EXPECT_EQ(names.Intern("idle", 3), others);
}

TEST(JobNames, ANumberIsNotReusedBeforeItWasTakenAsForgotten) {
  JobNames names;
  for (std::size_t i = 0; i <= JobNames::kMaxIdle; ++i) names.Intern("j" + std::to_string(i), 0);
  const std::uint32_t reused = names.Intern("other", 1);
  EXPECT_EQ(reused, names.size() - 1);
  EXPECT_EQ(names.TakeForgotten(), std::vector<std::uint32_t>{1});
  EXPECT_EQ(names.Intern("j0", 1), 1U);  // as a new one
  EXPECT_EQ(names.Intern("", 5), 0U);
}

// The bytes that one report of a flow announces for the first time.
std::uint64_t NewBytes(FlowTable& table, wire::FlowProgress progress) {
  progress.id = wire::LocalFlowId(1);
  std::uint64_t bytes = 0;
  for (const MessageChange& change :
       table.TakeProgress(kAgent, std::vector{progress}, TimePoint{}).changes) {
    bytes += change.new_bytes;
  }
  return bytes;
}

// A total of 100 bytes, sent in parts between which the flow reports that nothing remains.
TEST(FlowTable, CountsAnnouncedBytesOnceHoweverOftenTheyAreAnnounced) {
  FlowTable table;
  table.Open(FlowOf(kAgent, 1));
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = 100}), 100U);
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = 70, .outstanding_bytes = 10, .sent_bytes = 20}),
            0U);
  EXPECT_EQ(NewBytes(table, {.sent_bytes = 40}), 0U);
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = 60, .sent_bytes = 40}), 0U);
  EXPECT_EQ(NewBytes(table, {.sent_bytes = 100}), 0U);
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = 90, .outstanding_bytes = 10, .sent_bytes = 100}),
            100U);
}

TEST(FlowTable, CountsGrowthIfSentBytesAreNotReported) {
  FlowTable table;
  table.Open(FlowOf(kAgent, 1));
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = 100}), 100U);
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = 50, .outstanding_bytes = 25}), 0U);
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = 80}), 30U);
}

// After a restart of the controller, a flow may have sent many bytes before.
TEST(FlowTable, CountsNoBytesSentBeforeTheFirstReport) {
  FlowTable table;
  table.Open(FlowOf(kAgent, 1));
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = 10, .sent_bytes = 1'000'000}), 10U);
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = 10, .sent_bytes = 1'000'010}), 10U);
}

TEST(FlowTable, SumsOfHugeSizesDoNotOverflow) {
  FlowTable table;
  table.Open(FlowOf(kAgent, 1));
  constexpr std::uint64_t kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = 10, .sent_bytes = 1}), 10U);
  EXPECT_GT(
      NewBytes(table, {.remaining_bytes = kHuge, .outstanding_bytes = kHuge, .sent_bytes = kHuge}),
      kHuge);
  EXPECT_EQ(NewBytes(table, {.remaining_bytes = kHuge, .sent_bytes = kHuge}), 0U);
}

// What a report of edges changes: was busy, is busy, and how long ago.
std::vector<std::tuple<bool, bool, int>> EdgesTaken(FlowTable& table, TimePoint now,
                                                    std::uint32_t edges, int age_us,
                                                    int duty_permille = 0) {
  const wire::FlowProgress progress{.id = wire::LocalFlowId(1),
                                    .edges = edges,
                                    .edge_age_us = static_cast<std::uint64_t>(age_us),
                                    .duty_permille = static_cast<std::uint16_t>(duty_permille)};
  std::vector<std::tuple<bool, bool, int>> taken;
  for (const MessageChange& change :
       table.TakeProgress(kAgent, std::vector{progress}, now).changes) {
    const auto age = std::chrono::duration_cast<std::chrono::microseconds>(now - change.at);
    taken.emplace_back(change.was_busy, change.is_busy, static_cast<int>(age.count()));
  }
  return taken;
}

using Taken = std::vector<std::tuple<bool, bool, int>>;

TEST(FlowTable, TellsWhenFlowsBecomeBusyAndIdle) {
  FlowTable table;
  const TimePoint now{std::chrono::hours(1)};
  Flow flow = FlowOf(kAgent, 1);
  flow.started = now - std::chrono::seconds(1);
  const FlowSlot slot = table.Open(std::move(flow));
  EXPECT_FALSE(table.ActivityOf(slot).ReportsEdges());
  EXPECT_EQ(EdgesTaken(table, now, 1, 300), (Taken{{false, true, 300}}));
  EXPECT_TRUE(table.ActivityOf(slot).IsBusy());
  EXPECT_EQ(EdgesTaken(table, now, 1, 900), Taken{});  // the same edge again
  EXPECT_EQ(EdgesTaken(table, now, 2, 40), (Taken{{true, false, 40}}));
  EXPECT_FALSE(table.ActivityOf(slot).IsBusy());
}

TEST(FlowTable, EdgesLieWhereTheyWereThoughTheirReportIsLate) {
  FlowTable table;
  const TimePoint now{std::chrono::hours(1)};
  Flow flow = FlowOf(kAgent, 1);
  flow.started = now - std::chrono::seconds(1);
  table.Open(std::move(flow));
  const auto take = [&](std::uint32_t edges, Duration late) {
    const wire::FlowProgress row{.id = wire::LocalFlowId(1), .edges = edges, .edge_age_us = 2'000};
    return table.TakeProgress(kAgent, std::vector{row}, now, late).changes;
  };
  ASSERT_EQ(take(1, std::chrono::milliseconds(300)).size(), 1U);
  EXPECT_EQ(take(2, std::chrono::milliseconds(100)).front().at,
            now - std::chrono::milliseconds(102));
  EXPECT_EQ(take(3, std::chrono::hours(9)).front().at, now - std::chrono::milliseconds(102))
      << "not before the edges that were reported";
}

TEST(FlowTable, AReportOfSeveralEdgesIsOneBurstAtMost) {
  FlowTable table;
  const TimePoint now{std::chrono::hours(1)};
  Flow flow = FlowOf(kAgent, 1);
  flow.started = now - std::chrono::seconds(1);
  table.Open(std::move(flow));
  EXPECT_EQ(EdgesTaken(table, now, 2, 50), Taken{});  // its only burst ended before it was known
  EXPECT_EQ(EdgesTaken(table, now, 4, 50), (Taken{{false, true, 50}, {true, false, 50}}));
  EXPECT_EQ(EdgesTaken(table, now, 9, 50), (Taken{{false, true, 50}}));
  EXPECT_EQ(EdgesTaken(table, now, 11, 60), (Taken{{true, false, 50}, {false, true, 50}}))
      << "not before the edges that were told";
}

TEST(FlowTable, NoReportTurnsEdgesBackOrReachesBeforeTheFlow) {
  FlowTable table;
  const TimePoint now{std::chrono::hours(1)};
  Flow flow = FlowOf(kAgent, 1);
  flow.started = now - std::chrono::microseconds(700);
  const FlowSlot slot = table.Open(std::move(flow));
  EXPECT_EQ(EdgesTaken(table, now, 5, 2'000'000'000), (Taken{{false, true, 700}}));
  EXPECT_EQ(EdgesTaken(table, now, 4, 10), Taken{});  // an older report
  EXPECT_TRUE(table.ActivityOf(slot).IsBusy());
}

TEST(FlowTable, AFlowThatTogglesTooOftenCountsAsBusy) {
  FlowTable table;
  const TimePoint now{std::chrono::hours(1)};
  Flow flow = FlowOf(kAgent, 1);
  flow.started = now - std::chrono::seconds(1);
  const FlowSlot slot = table.Open(std::move(flow));
  EXPECT_EQ(EdgesTaken(table, now, 100, 10, 250), (Taken{{false, true, 10}}));
  EXPECT_EQ(EdgesTaken(table, now, 301, 10, 260), Taken{});
  EXPECT_EQ(table.ActivityOf(slot).duty_permille, 260);
  EXPECT_EQ(EdgesTaken(table, now, 302, 10), (Taken{{true, false, 10}}));
}

// Reports `edges` more edges of each of these flows.
FlowTable::Taken Claim(FlowTable& table, TimePoint now, std::uint64_t flows, std::uint32_t edges,
                       std::uint64_t age_us = 0) {
  std::vector<wire::FlowProgress> progress;
  for (std::uint64_t id = 1; id <= flows; ++id) {
    progress.push_back({.id = wire::LocalFlowId(id), .edges = edges, .edge_age_us = age_us});
  }
  return table.TakeProgress(kAgent, progress, now);
}

TEST(FlowTable, AFlowOverItsBudgetCountsAsBusyAndIsNotFollowed) {
  FlowTable table;
  TimePoint now{std::chrono::hours(1)};
  const FlowSlot slot = table.Open(FlowOf(kAgent, 1));
  std::uint32_t edges = 2;
  std::size_t changes = 0;
  std::size_t implausible = 0;
  for (int i = 0; i < 10'000; ++i) {  // in ten seconds
    now += std::chrono::milliseconds(1);
    const auto taken = Claim(table, now, 1, edges += 3);
    changes += taken.changes.size();
    implausible += taken.implausible;
  }
  EXPECT_LE(changes, 2 * EdgeBudget::kOfFlow);
  EXPECT_EQ(implausible, 1U);  // it stays over its budget
  EXPECT_TRUE(table.ActivityOf(slot).IsBusy());
  edges += edges % 2;
  Claim(table, now += std::chrono::seconds(2), 1, edges);
  Claim(table, now += std::chrono::seconds(2), 1, edges);
  EXPECT_FALSE(table.ActivityOf(slot).IsBusy());
  EXPECT_EQ(Claim(table, now, 1, edges + 1).changes.size(), 1U);
}

TEST(FlowTable, AnAgentHasABudgetForAllItsFlows) {
  constexpr std::uint64_t kFlows = 4'096;
  FlowTable table;
  TimePoint now{std::chrono::hours(1)};
  for (std::uint64_t id = 1; id <= kFlows; ++id) table.Open(FlowOf(kAgent, id));
  std::uint32_t edges = 2;
  std::size_t changes = 0;
  Claim(table, now, kFlows, edges);
  for (int i = 0; i < 60; ++i) {  // no flow exceeds its budget
    now += std::chrono::milliseconds(16);
    changes += Claim(table, now, kFlows, ++edges).changes.size();
  }
  EXPECT_LE(changes, EdgeBudget::kOfAgent + kFlows);
  EXPECT_GT(changes, EdgeBudget::kOfAgent / 2);
}

TEST(FlowTable, AnEdgeBeforeAnEarlierOneIsImplausible) {
  FlowTable table;
  TimePoint now{std::chrono::hours(1)};
  table.Open(FlowOf(kAgent, 1));
  EXPECT_EQ(Claim(table, now, 1, 1, 500).implausible, 0U);
  now += std::chrono::seconds(1);
  EXPECT_EQ(Claim(table, now, 1, 2, 1'100'000).implausible, 0U);  // reports take different times
  const auto taken = Claim(table, now + std::chrono::milliseconds(10), 1, 3, 60'000'000);
  EXPECT_EQ(taken.implausible, 1U);
  ASSERT_EQ(taken.changes.size(), 1U);
  EXPECT_EQ(taken.changes[0].at, now - std::chrono::seconds(1) - std::chrono::microseconds(500));
}

TEST(FlowTable, ReusedSlotStartsWithoutActivity) {
  FlowTable table;
  const FlowSlot first = table.Open(FlowOf(kAgent, 1));
  table.TakeProgress(kAgent, std::vector{ProgressOf(1, 10)}, TimePoint{});
  table.Close(first);
  const FlowSlot second = table.Open(FlowOf(kAgent, 2));
  ASSERT_EQ(second, first);
  EXPECT_EQ(table.ActivityOf(second).remaining_bytes, 0U);
}

TEST(FlowTable, AgreesWithAMapUnderRandomUse) {
  constexpr int kSeed = 20261121;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  FlowTable table;
  std::map<std::pair<int, std::uint64_t>, std::uint64_t> expected;  // (agent, flow) -> remaining
  for (int step = 0; step < 20'000; ++step) {
    const int agent = static_cast<int>(random() % 3);
    const std::uint64_t local = random() % 64;
    const auto known = expected.find({agent, local});
    const auto slot = table.Find(AgentId(agent), wire::LocalFlowId(local));
    ASSERT_EQ(slot.has_value(), known != expected.end());
    if (!slot) {
      table.Open(FlowOf(AgentId(agent), local));
      expected[{agent, local}] = 0;
    } else if (random() % 2 == 0) {
      ASSERT_EQ(table.ActivityOf(*slot).remaining_bytes, known->second);
      table.Close(*slot);
      expected.erase(known);
    } else {
      known->second = random();
      table.TakeProgress(AgentId(agent), std::vector{ProgressOf(local, known->second)},
                         TimePoint{});
    }
    ASSERT_EQ(table.size(), expected.size());
  }
  EXPECT_EQ(table.All().size(), expected.size());
}

}  // namespace
}  // namespace espalier::controller
