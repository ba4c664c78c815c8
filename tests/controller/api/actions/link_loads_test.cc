#include "controller/api/actions/link_loads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

// The loads of links as a feed reports them and as operators see them. Flow h0:5 goes from leaf0.
class LinkLoadsTest : public OperatorApiFixture {
 protected:
  int Post(const std::string& body) { return Call("POST", "/api/v1/links/load", {}, body).status; }
  io::JsonValue Link(const std::string& id) {
    const io::JsonValue answer = Json(Call("GET", "/api/v1/links"));
    for (const io::JsonValue& link : answer.Find("links")->items) {
      if (link.Find("id")->text == id) return link;
    }
    ADD_FAILURE() << id;
    return {};
  }
};

TEST_F(LinkLoadsTest, ShowTheBackgroundOfEachDirectionWithItsSourceAndAge) {
  EXPECT_EQ(Link("leaf0--spine0").Find("background_a_to_b"), nullptr);
  const auto answer = Call("POST", "/api/v1/links/load", {}, R"({"source": "gnmi",
      "only_background": true, "max_age_seconds": 2.5, "loads": [
      {"link": "leaf0--spine0>spine0", "bps": 50000000000},
      {"link": "leaf1--spine1", "bps": 2.5e10}]})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body, R"({"taken":3})");
  cluster_.Advance(std::chrono::seconds(1));
  const io::JsonValue link = Link("leaf0--spine0");
  const io::JsonValue* const background = link.Find("background_a_to_b");
  ASSERT_NE(background, nullptr);
  EXPECT_EQ(background->Find("bps")->text, "50000000000");
  EXPECT_EQ(background->Find("reported_bps")->text, "50000000000");
  EXPECT_EQ(background->Find("source")->text, "gnmi");
  EXPECT_NEAR(std::stod(background->Find("age_seconds")->text), 1, 0.2);
  EXPECT_EQ(link.Find("background_b_to_a"), nullptr);
  EXPECT_NE(Link("leaf1--spine1").Find("background_b_to_a"), nullptr);
  const auto explained = Json(Call("GET", "/api/v1/flows/explain", {{"flow", "h0:5"}}));
  int shown = 0;
  for (const io::JsonValue& path : explained.Find("paths")->items) {
    for (const io::JsonValue& hop : path.Find("links")->items)
      shown += hop.Find("background") != nullptr ? 1 : 0;
  }
  EXPECT_GE(shown, 1);
  cluster_.Advance(std::chrono::seconds(3));
  EXPECT_EQ(Link("leaf0--spine0").Find("background_a_to_b"), nullptr);
}

// From leaf0 to leaf1 there are two paths; one of them carries flow h0:5.
TEST_F(LinkLoadsTest, CountSprayedTrafficOnAllPathsByTheirWeights) {
  cluster_.End(1, 6);
  cluster_.Settle();
  const auto answer = Call("POST", "/api/v1/links/load", {}, R"({"source": "sprayers",
      "sprayed": [{"source": "h0", "destination": "h2", "bps": 4e10},
                  {"source": "h1", "destination": "h3", "bps": 2e10},
                  {"source": "h0", "destination": "h1", "bps": 9e10}]})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.body, R"({"taken":4})");
  double sum = 0;
  std::vector<double> loads;
  for (const char* const id : {"leaf0--spine0", "leaf0--spine1"}) {
    const io::JsonValue link = Link(id);
    ASSERT_NE(link.Find("background_a_to_b"), nullptr) << id;
    EXPECT_EQ(link.Find("background_b_to_a"), nullptr) << id;
    loads.push_back(std::stod(link.Find("background_a_to_b")->Find("reported_bps")->text));
    sum += loads.back();
  }
  EXPECT_NEAR(sum, 6e10, 2);
  // A path with a flow deserves half of what a free one does.
  EXPECT_NEAR(std::max(loads[0], loads[1]), 2 * std::min(loads[0], loads[1]), 4);
  EXPECT_NE(Link("leaf1--spine0").Find("background_b_to_a"), nullptr);
  EXPECT_EQ(Link("leaf1--spine0").Find("background_a_to_b"), nullptr);
}

TEST_F(LinkLoadsTest, PutNoSprayedTrafficOnADeadLink) {
  ASSERT_EQ(Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}}).status, 200);
  EXPECT_EQ(Post(R"({"source": "s", "sprayed": [{"source": "h0", "destination": "h2",
                     "bps": 1e13}]})"),
            200);
  EXPECT_EQ(Link("leaf0--spine0").Find("background_a_to_b"), nullptr);
  const io::JsonValue link = Link("leaf0--spine1");
  ASSERT_NE(link.Find("background_a_to_b"), nullptr);
  EXPECT_EQ(link.Find("background_a_to_b")->Find("reported_bps")->text, "100000000000")
      << "no more than the rate of the link";
}

TEST_F(LinkLoadsTest, RefuseSprayedTrafficThatIsWrong) {
  const std::string good = R"({"source": "h0", "destination": "h2", "bps": 1e10})";
  const auto body = [&](const std::string& pairs) {
    return R"({"source": "f", "sprayed": [)" + pairs + "]}";
  };
  EXPECT_EQ(Post(body(good + R"(, {"source": "h0", "destination": "h9", "bps": 1})")), 404);
  for (const std::string& wrong : std::vector<std::string>{
           R"({"source": "h0", "destination": "h2"})", R"({"source": "h0", "bps": 1})",
           R"({"source": "h0", "destination": "h2", "bps": -1})",
           R"({"source": "h0", "destination": "h2", "bps": 1e999})",
           R"({"source": "h0", "destination": "h2", "bps": "1"})",
           R"({"source": "h0", "destination": "h2", "bps": 1, "link": "leaf0--spine0"})", "7"}) {
    EXPECT_EQ(Post(body(good + ", " + wrong)), 400) << wrong;
  }
  EXPECT_EQ(Post(R"({"source": "f", "loads": [], "sprayed": [)" + good + "]}"), 400);
  EXPECT_EQ(Post(R"({"source": "f", "only_background": false, "sprayed": [)" + good + "]}"), 400);
  std::string many = good;
  for (int i = 0; i < 4'096; ++i) many += "," + good;
  EXPECT_EQ(Post(body(many)), 400);
  EXPECT_EQ(Link("leaf0--spine0").Find("background_a_to_b"), nullptr);
}

TEST_F(LinkLoadsTest, RefuseWhatIsWrongAsAWhole) {
  const std::string good = R"({"link": "leaf0--spine0", "bps": 1e10})";
  const auto body = [&](const std::string& loads) {
    return R"({"source": "f", "only_background": true, "loads": [)" + loads + "]}";
  };
  EXPECT_EQ(Post(body(good + R"(, {"link": "leaf9--spine0", "bps": 1})")), 404);
  EXPECT_EQ(Post(body(good + R"(, {"link": "leaf0--spine1>leaf1", "bps": 1})")), 404);
  for (const std::string& wrong : std::vector<std::string>{
           R"({"link": "leaf0--spine1", "bps": -1})", R"({"link": "leaf0--spine1", "bps": 1e12})",
           R"({"link": "leaf0--spine1", "bps": NaN})", R"({"link": "leaf0--spine1", "bps": 1e999})",
           R"({"link": "leaf0--spine1", "bps": "1"})", R"({"link": "leaf0--spine1"})",
           R"({"link": "h0--leaf0", "bps": 1})", R"({"link": "leaf0--spine0>leaf0", "bps": 1})",
           R"({"link": "leaf0--spine1", "bps": 1, "up": true})", R"({"bps": 1})", "7"}) {
    EXPECT_EQ(Post(body(good + ", " + wrong)), 400) << wrong;
  }
  for (const std::string& wrong : std::vector<std::string>{
           std::string("loads"), std::string("{}"), R"({"source": "f"})",
           R"({"loads": [)" + good + "]}", R"({"source": "f", "max_age_seconds": 0, "loads": []})",
           R"({"source": "f", "max_age_seconds": 1e300, "loads": []})",
           R"({"source": "", "loads": []})", R"({"source": "f", "loads": [], "when": 1})"}) {
    EXPECT_EQ(Post(wrong), 400) << wrong;
  }
  std::string many = good;
  for (int i = 0; i < 10'000; ++i) many += "," + good;
  EXPECT_EQ(Post(body(many)), 400);
  EXPECT_EQ(Link("leaf0--spine0").Find("background_a_to_b"), nullptr);
  EXPECT_EQ(Post(body(good)), 200);
}

}  // namespace
}  // namespace espalier::controller
