#include "controller/api/link_loads.h"

#include <gtest/gtest.h>

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
