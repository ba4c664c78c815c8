// The event history and its limits for each source.
#include "controller/state/event_history.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

constexpr TimePoint kStart{std::chrono::hours(1)};
constexpr HistoryLimits kSmall{.events = 6,
                               .of_source = 2,
                               .of_all_sources = 4,
                               .burst = 2,
                               .per_second = 1,
                               .tell_dropped = std::chrono::seconds(10)};

// Each event as "kind text".
Words Read(const EventHistory& history, std::uint64_t since = 0, std::size_t most = 1'000) {
  Words words;
  for (const HistoryEvent& event : history.Since(since, most)) {
    words.push_back(event.kind + " " + event.text);
  }
  return words;
}

TEST(EventHistory, NumbersEventsAndReturnsThoseAfterANumber) {
  EventHistory history;
  EXPECT_EQ(history.last_sequence(), 0U);
  for (const char* const text : {"1", "2", "3"}) history.Record(kStart, "did", text);
  EXPECT_EQ(history.last_sequence(), 3U);
  EXPECT_EQ(Read(history, 1), (Words{"did 2", "did 3"}));
  EXPECT_EQ(Read(history, 0, 1), (Words{"did 1"}));
  EXPECT_TRUE(Read(history, 3).empty());
  EXPECT_EQ(history.Since(0, 1)[0].time, kStart);
  EXPECT_EQ(history.Since(0, 1)[0].source, "");
}

TEST(EventHistory, KeepsTheLatest) {
  EventHistory history(kSmall);
  for (int i = 1; i <= 8; ++i) history.Record(kStart, "did", std::to_string(i));
  EXPECT_EQ(Read(history), (Words{"did 3", "did 4", "did 5", "did 6", "did 7", "did 8"}));
}

TEST(EventHistory, OneSourceDisplacesOnlyItsOwnEvents) {
  EventHistory history(kSmall);
  history.Record(kStart, "did", "it");
  history.RecordOf("h0", kStart, "up", "a");
  history.RecordOf("h1", kStart, "up", "b");
  for (int i = 0; i < 20; ++i) history.RecordOf("h1", kStart + i * 2s, "up", std::to_string(i));
  EXPECT_EQ(Read(history), (Words{"did it", "up a", "up 18", "up 19"}));
}

TEST(EventHistory, AllSourcesTogetherLeaveRoomForOperators) {
  EventHistory history(kSmall);
  history.Record(kStart, "did", "it");
  for (int i = 0; i < 10; ++i) {
    history.RecordOf("h" + std::to_string(i), kStart, "up", std::to_string(i));
  }
  EXPECT_EQ(Read(history), (Words{"did it", "up 6", "up 7", "up 8", "up 9"}));
}

// The oldest event is one of a source.
TEST(EventHistory, OperatorsDisplaceEventsOfSources) {
  EventHistory history(kSmall);
  history.RecordOf("h0", kStart, "up", "a");
  for (int i = 1; i <= 6; ++i) history.Record(kStart, "did", std::to_string(i));
  EXPECT_EQ(Read(history).front(), "did 1");
  history.RecordOf("h0", kStart + 9s, "up", "b");  // its own count is right after that
  history.RecordOf("h0", kStart + 9s, "up", "c");
  EXPECT_EQ(Read(history).back(), "up c");
}

TEST(EventHistory, LimitsTheBurstAndRateOfEachKindOfASource) {
  EventHistory history(kSmall);
  for (int i = 0; i < 5; ++i) history.RecordOf("h0", kStart, "up", std::to_string(i));
  EXPECT_EQ(Read(history), (Words{"up 0", "up 1"}));
  EXPECT_EQ(history.dropped(), 3U);
  history.RecordOf("h0", kStart, "down", "another kind");
  history.RecordOf("h1", kStart, "up", "another source");
  history.RecordOf("h0", kStart + 999ms, "up", "too early");
  history.RecordOf("h0", kStart + 1s, "up", "later");
  EXPECT_EQ(history.dropped(), 4U);
  EXPECT_EQ(Read(history).back(), "up later");
}

TEST(EventHistory, NeverDropsEventsOfOperators) {
  EventHistory history;
  for (int i = 0; i < 1'000; ++i) history.Record(kStart, "did", "");
  EXPECT_EQ(Read(history).size(), 1'000U);
  EXPECT_EQ(history.dropped(), 0U);
}

TEST(EventHistory, ReportsDroppedEventsPeriodically) {
  EventHistory history(kSmall);
  history.RecordDropped(kStart);
  EXPECT_EQ(history.last_sequence(), 0U);
  const auto flood = [&](TimePoint now) {
    for (int i = 0; i < 5; ++i) history.RecordOf("h0", now, "up", "");
  };
  flood(kStart);
  history.RecordDropped(kStart);
  EXPECT_EQ(Read(history).back(), "events_dropped of=h0 kind=up count=3");
  EXPECT_EQ(history.Since(history.last_sequence() - 1, 1)[0].source, "h0");
  const std::uint64_t told = history.last_sequence();
  history.RecordDropped(kStart + 20s);
  EXPECT_EQ(history.last_sequence(), told);  // nothing since

  flood(kStart + 9s);
  const std::uint64_t before = history.last_sequence();
  history.RecordDropped(kStart + 10s - 1ns);
  EXPECT_EQ(history.last_sequence(), before);
  history.RecordDropped(kStart + 10s);
  EXPECT_EQ(Read(history).back(), "events_dropped of=h0 kind=up count=3");
}

TEST(EventHistory, RestoresEventsAndContinuesWithHigherNumbers) {
  EventHistory history(kSmall);
  history.Restore({});
  EXPECT_EQ(history.last_sequence(), 0U);
  history.Restore({{.sequence = 7, .time = kStart, .kind = "did", .text = "a", .source = ""},
                   {.sequence = 9, .time = kStart, .kind = "up", .text = "b", .source = "h0"}});
  history.Record(kStart, "did", "c");
  const auto events = history.Since(0, 10);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1].sequence, 9U);
  EXPECT_EQ(events[1].source, "h0");
  EXPECT_EQ(events[2].sequence, 9 + kSmall.events);
  // Restored events count towards the limit of their source.
  history.RecordOf("h0", kStart, "up", "d");
  history.RecordOf("h0", kStart, "up", "e");
  EXPECT_EQ(Read(history), (Words{"did a", "did c", "up d", "up e"}));
}

}  // namespace
}  // namespace espalier::controller
