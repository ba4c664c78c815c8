#include "controller/api/live/live_journal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/api/live/live_feed.h"
#include "tests/controller/api/live_api_fixture.h"

namespace espalier::controller {
namespace {

// Tests the journal through the events that clients of the feed get.
class LiveJournalFeedTest : public LiveApiTest {};

TEST_F(LiveJournalFeedTest, EachChangeIsWrittenOnceForAllClients) {
  constexpr int kChanges = 10;
  std::vector<std::shared_ptr<io::HttpStream>> streams;
  for (std::size_t i = 0; i < LiveFeed::kMaxClients; ++i) streams.push_back(Connect());
  for (const auto& stream : streams) EXPECT_EQ(Take(*stream).name, "snapshot");
  std::vector<std::vector<const std::string*>> taken(streams.size());
  std::vector<std::shared_ptr<const std::string>> alive;  // so that no address is used again
  for (int i = 0; i < kChanges; ++i) {
    cluster_.Open(0, {{.id = 10U + static_cast<std::uint64_t>(i), .to = 2, .job = "A"}});
    Refresh();
    for (std::size_t client = 0; client < streams.size(); ++client) {
      while (auto piece = streams[client]->Next()) {
        EXPECT_TRUE(piece->starts_with("event: update\n"));
        taken[client].push_back(piece.get());
        alive.push_back(std::move(piece));
      }
    }
  }
  for (const auto& of_client : taken) EXPECT_EQ(of_client, taken.front());
  const int changes = static_cast<int>(taken.front().size());
  EXPECT_GE(changes, kChanges);
  EXPECT_EQ(Count("espalier_controller_feed_updates_total"), changes);
  EXPECT_EQ(Count("espalier_controller_feed_snapshots_total"), 1);
  EXPECT_EQ(Count("espalier_controller_feed_pieces_total"),
            static_cast<int>(LiveFeed::kMaxClients) * (changes + 1));
}

TEST_F(LiveJournalFeedTest, ASlowClientCatchesUpOrGetsASnapshot) {
  const auto behind = Connect();
  const auto far_behind = Connect();
  Take(*behind);
  Take(*far_behind);
  const auto change = [&](std::uint64_t id) {
    cluster_.Open(0, {{.id = id, .to = 2, .job = "A"}});
    Refresh();
    cluster_.End(0, id);
    Refresh();
  };
  for (std::uint64_t id = 10; id < 15; ++id) change(id);
  std::set<std::string> open;
  for (Event update = Take(*behind); !update.name.empty(); update = Take(*behind)) {
    EXPECT_EQ(update.name, "update");
    if (const JsonValue* ended = update.data.Find("ended")) {
      for (const JsonValue& name : ended->items) EXPECT_EQ(open.erase(name.text), 1U);
    }
    open.merge(Names(update.data, "flows", "flow"));
  }
  EXPECT_TRUE(open.empty());
  for (std::uint64_t id = 20; id < 20 + LiveJournal::kMaxUpdates; ++id) change(id);
  cluster_.Open(0, {{.id = 99, .to = 2, .job = "A"}});
  Refresh();
  const Event whole = Take(*far_behind);
  EXPECT_EQ(whole.name, "snapshot");
  EXPECT_EQ(Names(whole.data, "flows", "flow"), (std::set<std::string>{"h0:5", "h1:6", "h0:99"}));
  EXPECT_EQ(far_behind->Next(), nullptr);
}

TEST_F(LiveJournalFeedTest, ManyNewClientsShareOneSnapshot) {
  const auto first = Connect();
  EXPECT_EQ(Take(*first).name, "snapshot");
  cluster_.Open(0, {{.id = 10, .to = 2, .job = "A"}});
  Refresh();
  const auto second = Connect();
  EXPECT_EQ(Take(*second).name, "snapshot");
  const Event since = Take(*second);
  EXPECT_EQ(since.name, "update");
  EXPECT_EQ(Names(since.data, "flows", "flow").count("h0:10"), 1U);
  EXPECT_EQ(second->Next(), nullptr);
  EXPECT_EQ(Count("espalier_controller_feed_snapshots_total"), 1);
}

TEST_F(LiveJournalFeedTest, ReportsARateChangeAlone) {
  const JsonValue description = Description();
  const auto stream = Connect();
  Take(*stream);
  const auto progress = [&](std::uint64_t bps) {
    wire::FlowReport report;
    report.progress = {{.id = wire::LocalFlowId(5), .achieved_bps = bps}};
    cluster_.Report(0, report);
    cluster_.Settle();
    Refresh();
    return Take(*stream);
  };
  const Event update = progress(50'000'000'000);
  EXPECT_EQ(
      Violation(description, *description.Find("components")->Find("schemas")->Find("LiveUpdate"),
                update.data, "update"),
      "");
  EXPECT_EQ(update.data.Find("flows"), nullptr);
  ASSERT_NE(update.data.Find("rates"), nullptr);
  ASSERT_EQ(update.data.Find("rates")->items.size(), 1U);
  EXPECT_EQ(update.data.Find("rates")->items[0].Find("flow")->text, "h0:5");
  const double told = std::stod(update.data.Find("rates")->items[0].Find("achieved_bps")->text);
  EXPECT_NEAR(told, 50e9, 50e9 / 8);
  EXPECT_EQ(progress(50'100'000'000).data.Find("rates"), nullptr) << "nearly the same";
}

class LiveJournalTest : public LiveApiTest {
 protected:
  void Change() {
    cluster_.Open(0, {{.id = next_++, .to = 2, .job = "A"}});
    Refresh();
  }
  std::uint64_t next_ = 100;
  int news_ = 0;
  LiveJournal journal_{cluster_.controller(), metrics_, [this] { ++news_; }};
};

TEST_F(LiveJournalTest, ScansNothingWithoutClients) {
  Change();
  EXPECT_EQ(journal_.Take(0).text, nullptr);
  EXPECT_EQ(news_, 0);
  journal_.Follow();
  Refresh();
  EXPECT_GE(news_, 1);
  const LiveJournal::Piece whole = journal_.Take(0);
  ASSERT_NE(whole.text, nullptr);
  EXPECT_TRUE(whole.text->starts_with("event: snapshot\n"));
  EXPECT_EQ(journal_.Take(whole.change).text, nullptr);
  EXPECT_EQ(journal_.Take(whole.change).change, whole.change);
}

TEST_F(LiveJournalTest, KeepsALimitedNumberOfConsecutiveChanges) {
  journal_.Follow();
  Refresh();
  const std::uint64_t first = journal_.Take(0).change;
  constexpr int kChanges = 5;
  for (int i = 0; i < kChanges; ++i) Change();
  std::uint64_t at = first;
  int pieces = 0;
  for (auto piece = journal_.Take(at); piece.text; piece = journal_.Take(at), ++pieces) {
    EXPECT_EQ(piece.change, at + 1);
    EXPECT_TRUE(piece.text->starts_with("event: update\n"));
    at = piece.change;
  }
  EXPECT_GE(pieces, kChanges);
  for (std::size_t i = 0; i <= LiveJournal::kMaxUpdates; ++i) Change();
  const LiveJournal::Piece whole = journal_.Take(first);
  ASSERT_NE(whole.text, nullptr);
  EXPECT_TRUE(whole.text->starts_with("event: snapshot\n")) << "too far behind";
}

// The controller records ten thousand events between two updates.
TEST_F(LiveJournalTest, TellsTheLatestEventsOfAFloodAndNoMore) {
  journal_.Follow();
  Refresh();
  const std::uint64_t first = journal_.Take(0).change;
  for (int i = 0; i < 10'000; ++i) {
    cluster_.state().history.Record(cluster_.controller().Now(), "flood",
                                    fmt::format("event={}", i));
  }
  Refresh();
  const LiveJournal::Piece update = journal_.Take(first);
  ASSERT_NE(update.text, nullptr);
  EXPECT_NE(update.text->find("event=9999"), std::string::npos);
  EXPECT_EQ(update.text->find("event=9799\""), std::string::npos);
  std::size_t told = 0;
  for (auto at = update.text->find("event="); at != std::string::npos; ++told) {
    at = update.text->find("event=", at + 1);
  }
  EXPECT_LE(told, 200U);
  EXPECT_LT(update.text->size(), 100'000U);
}

TEST_F(LiveJournalTest, RestsAndRestartsWithThePresentState) {
  journal_.Follow();
  Refresh();
  journal_.Rest();
  Refresh();
  EXPECT_EQ(journal_.Take(0).text, nullptr);
  const int before = news_;
  Change();
  EXPECT_EQ(news_, before);
  journal_.Follow();
  Refresh();
  const LiveJournal::Piece whole = journal_.Take(0);
  ASSERT_NE(whole.text, nullptr);
  EXPECT_NE(whole.text->find("h0:100"), std::string::npos);
}

TEST_F(LiveJournalTest, HasNoPiecesAfterTheControllerEnds) {
  journal_.Follow();
  Refresh();
  EXPECT_FALSE(journal_.is_closed());
  journal_.Close();
  EXPECT_TRUE(journal_.is_closed());
  EXPECT_EQ(journal_.Take(0).text, nullptr);
  const int before = news_;
  Change();
  journal_.Follow();
  Refresh();
  EXPECT_EQ(news_, before);
}

}  // namespace
}  // namespace espalier::controller
