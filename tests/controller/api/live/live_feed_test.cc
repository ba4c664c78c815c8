#include "controller/api/live/live_feed.h"

#include "tests/controller/api/live_api_fixture.h"

namespace espalier::controller {
namespace {

TEST_F(LiveApiTest, StreamsASnapshotAndThenOnlyWhatChanges) {
  const JsonValue description = Description();
  const JsonValue& schema = *description.Find("components")->Find("schemas")->Find("LiveUpdate");
  const auto stream = Connect();
  ASSERT_NE(stream, nullptr);
  const Event whole = Take(*stream);
  EXPECT_EQ(whole.name, "snapshot");
  EXPECT_EQ(Violation(description, schema, whole.data, "snapshot"), "");
  EXPECT_EQ(Names(whole.data, "flows", "flow"), (std::set<std::string>{"h0:5", "h1:6"}));
  EXPECT_EQ(whole.data.Find("links")->items.size(), 8U);
  EXPECT_EQ(whole.data.Find("agents")->items.size(), 4U);
  EXPECT_NE(whole.data.Find("status"), nullptr);
  Refresh();
  EXPECT_EQ(stream->Next(), nullptr) << "nothing has changed";

  cluster_.End(0, 5);
  cluster_.Open(2, {{.id = 7, .to = 0, .job = "A"}});
  Refresh();
  const Event update = Take(*stream);
  EXPECT_EQ(update.name, "update");
  EXPECT_EQ(Violation(description, schema, update.data, "update"), "");
  EXPECT_EQ(Names(update.data, "flows", "flow"), (std::set<std::string>{"h2:7"}));
  ASSERT_EQ(update.data.Find("ended")->items.size(), 1U);
  EXPECT_EQ(update.data.Find("ended")->items[0].text, "h0:5");
  EXPECT_LE(update.data.Find("links")->items.size(), 4U);
  EXPECT_EQ(stream->Next(), nullptr);
}

// Regression: flows once stayed on the page when the last of them had ended.
TEST_F(LiveApiTest, ReportsTheEndOfTheLastFlow) {
  const auto stream = Connect();
  Take(*stream);
  cluster_.End(0, 5);
  cluster_.End(1, 6);
  Refresh();
  const Event update = Take(*stream);
  ASSERT_NE(update.data.Find("ended"), nullptr);
  EXPECT_EQ(update.data.Find("ended")->items.size(), 2U);
}

TEST_F(LiveApiTest, AnEdgeOfAForestBeginsAndEndsAsAFlow) {
  const JsonValue description = Description();
  const JsonValue& schema = *description.Find("components")->Find("schemas")->Find("LiveUpdate");
  cluster_.End(0, 5);
  cluster_.End(1, 6);
  const auto stream = Connect();
  Take(*stream);
  ASSERT_TRUE(cluster_.StartJob({.name = "train", .ranks = {"h0", "h2"}}).has_value());
  cluster_.Settle();
  std::set<std::string> edges;
  for (const auto& [name, edge] : cluster_.state().edges.all()) {
    edges.insert(cluster_.state().FlowName(name.agent, name.number));
  }
  ASSERT_GE(edges.size(), 2U);
  Refresh();
  const Event begun = Take(*stream);
  EXPECT_EQ(Violation(description, schema, begun.data, "update"), "");
  EXPECT_EQ(Names(begun.data, "flows", "flow"), edges);
  EXPECT_EQ(begun.data.Find("flows")->items[0].Find("status")->text, "ROUTED");
  EXPECT_EQ(begun.data.Find("flows")->items[0].Find("job")->text, "train");
  ASSERT_TRUE(cluster_.StopJob("train").has_value());
  Refresh();
  std::set<std::string> ended;
  while (const auto piece = stream->Next()) {
    const JsonValue update = Parse(piece->substr(piece->find("\ndata: ") + 7));
    if (const JsonValue* const names = update.Find("ended")) {
      for (const JsonValue& name : names->items) ended.insert(name.text);
    }
    EXPECT_EQ(update.Find("flows"), nullptr);
  }
  EXPECT_EQ(ended, edges);
}

TEST_F(LiveApiTest, ReportsFailuresAsTheyHappen) {
  const auto stream = Connect();
  Take(*stream);
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}, {"reason", "optics"}});
  Refresh();
  const Event update = Take(*stream);
  EXPECT_EQ(Names(update.data, "events", "kind"), (std::set<std::string>{"link_failed"}));
  bool seen = false;
  for (const JsonValue& link : update.data.Find("links")->items) {
    if (link.Find("id")->text != "leaf0--spine0") continue;
    seen = true;
    EXPECT_EQ(link.Find("state")->text, "DOWN");
    EXPECT_EQ(link.Find("reason")->text, "optics");
  }
  EXPECT_TRUE(seen);
  EXPECT_EQ(update.data.Find("flows")->items[0].Find("reason")->text, "PATH_DEAD");
}

TEST_F(LiveApiTest, AClientAfterAPauseGetsThePresentState) {
  Take(*Connect());
  Refresh();  // nobody looks any more
  cluster_.End(0, 5);
  cluster_.Open(2, {{.id = 7, .to = 0, .job = "A"}});
  cluster_.Settle();
  const auto stream = Connect();
  const Event whole = Take(*stream);
  EXPECT_EQ(whole.name, "snapshot");
  EXPECT_EQ(Names(whole.data, "flows", "flow"), (std::set<std::string>{"h1:6", "h2:7"}));
}

TEST_F(LiveApiTest, LimitsStreamsAndForgetsThoseThatLeft) {
  std::vector<std::shared_ptr<io::HttpStream>> streams;
  for (std::size_t i = 0; i < LiveFeed::kMaxClients; ++i) streams.push_back(Connect());
  EXPECT_EQ(Call("GET", "/api/v1/stream").status, 429);
  streams.pop_back();
  EXPECT_NE(Connect(), nullptr);
}

// Regression: one viewer's token held all streams, and the operator's page got none.
TEST_F(LiveApiTest, TheCallerWithTheMostStreamsGivesWay) {
  LiveFeed feed(cluster_.controller(), metrics_);
  std::vector<std::shared_ptr<io::HttpStream>> streams;
  std::vector<std::size_t> ended;
  for (std::size_t i = 0; i < LiveFeed::kMaxClients; ++i) {
    streams.push_back(feed.Connect("viewer"));
    streams.back()->end = [&ended, i] { ended.push_back(i); };
  }
  EXPECT_EQ(feed.Connect("viewer"), nullptr);
  EXPECT_EQ(ended, std::vector<std::size_t>());
  std::vector<std::shared_ptr<io::HttpStream>> others;
  while (auto stream = feed.Connect("operator")) others.push_back(std::move(stream));
  EXPECT_EQ(others.size(), LiveFeed::kMaxClients / 2);
  ASSERT_EQ(ended.size(), LiveFeed::kMaxClients / 2);
  EXPECT_EQ(ended.front(), 0U) << "the oldest first";
  EXPECT_EQ(streams.front()->Next(), nullptr);
  EXPECT_NE(feed.Connect("feed"), nullptr);
}

TEST_F(LiveApiTest, AStreamOutlivesItsFeed) {
  std::shared_ptr<io::HttpStream> stream;
  {
    LiveFeed feed(cluster_.controller(), metrics_);
    stream = feed.Connect("ada");
  }
  EXPECT_EQ(stream->Next(), nullptr);
}

}  // namespace
}  // namespace espalier::controller
