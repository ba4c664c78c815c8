// Which telemetry feeds report, which are silent, and what they say of links.
#include "controller/api/lists/feed_list.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class FeedListTest : public OperatorApiFixture {
 protected:
  io::JsonValue Feeds() { return Json(Call("GET", "/api/v1/feeds")); }
  void Post(const std::string& path, const std::string& body) {
    const io::HttpResponse answer = Call("POST", path, {}, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
  void ReportLoads() {
    Post("/api/v1/links/load", R"({"source": "gnmi", "only_background": true,
         "max_age_seconds": 2.5, "loads": [{"link": "leaf0--spine0>spine0", "bps": 25000000000},
         {"link": "leaf1--spine1", "bps": 5e10}, {"link": "leaf0--spine1", "bps": 0}]})");
  }
  void ReportFlows() {
    Post("/api/v1/flows/seen", R"({"source": "sflow", "window_seconds": 4, "flows": []})");
  }
};

TEST_F(FeedListTest, IsEmptyWithoutFeeds) {
  const io::JsonValue answer = Feeds();
  for (const char* list : {"feeds", "links_down", "loads"}) {
    EXPECT_TRUE(answer.Find(list)->items.empty()) << list;
  }
  EXPECT_EQ(answer.Find("loads_left_out")->text, "0");
}

TEST_F(FeedListTest, ShowsWhoReportsWhatAndSinceWhenOthersAreSilent) {
  ReportLoads();
  ReportFlows();
  Post("/api/v1/links/report", R"({"link": "leaf0--spine1", "up": false, "source": "frr"})");
  cluster_.Advance(1s);
  io::JsonValue answer = Feeds();
  ASSERT_EQ(answer.Find("feeds")->items.size(), 2U);
  const io::JsonValue& loads = answer.Find("feeds")->items[0];
  EXPECT_EQ(loads.Find("source")->text, "gnmi");
  EXPECT_EQ(loads.Find("kind")->text, "LOADS");
  EXPECT_EQ(loads.Find("state")->text, "REPORTING");
  EXPECT_EQ(loads.Find("links")->text, "5") << "directions, those without load too";
  EXPECT_NEAR(std::stod(loads.Find("age_seconds")->text), 1, 0.3);
  const io::JsonValue& flows = answer.Find("feeds")->items[1];
  EXPECT_EQ(flows.Find("source")->text, "sflow");
  EXPECT_EQ(flows.Find("kind")->text, "FLOWS");
  EXPECT_EQ(flows.Find("state")->text, "REPORTING");
  ASSERT_EQ(answer.Find("links_down")->items.size(), 1U);
  EXPECT_EQ(answer.Find("links_down")->items[0].Find("link")->text, "leaf0--spine1");
  EXPECT_EQ(answer.Find("links_down")->items[0].Find("source")->text, "frr");
  ASSERT_EQ(answer.Find("loads")->items.size(), 3U) << "those in force, the largest first";
  EXPECT_EQ(answer.Find("loads")->items[0].Find("bps")->text, "50000000000");
  EXPECT_EQ(answer.Find("loads")->items[2].Find("link")->text, "leaf0--spine0>spine0");
  EXPECT_EQ(answer.Find("loads")->items[2].Find("bps")->text, "25000000000");

  cluster_.Advance(40s);
  answer = Feeds();
  ASSERT_EQ(answer.Find("feeds")->items.size(), 2U);
  for (const io::JsonValue& feed : answer.Find("feeds")->items) {
    EXPECT_EQ(feed.Find("state")->text, "SILENT") << feed.Find("source")->text;
    EXPECT_EQ(feed.Find("links")->text, "0");
    EXPECT_GT(std::stod(feed.Find("age_seconds")->text), 30);
  }
  EXPECT_TRUE(answer.Find("loads")->items.empty());
  EXPECT_EQ(answer.Find("links_down")->items.size(), 1U) << "silence is no news of a link";
  Post("/api/v1/links/report", R"({"link": "leaf0--spine1", "up": true, "source": "frr"})");
  cluster_.Advance(1s);
  EXPECT_TRUE(Feeds().Find("links_down")->items.empty());
  cluster_.Advance(25h);
  EXPECT_TRUE(Feeds().Find("feeds")->items.empty()) << "nobody misses them any more";
}

}  // namespace
}  // namespace espalier::controller
