#include "controller/api/views/explain_view.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

class ExplainViewTest : public OperatorApiFixture {
 protected:
  io::JsonValue Parsed(const std::string& text) { return Json({.status = 200, .body = text}); }
};

// The name by its ends stays when a job opens its connections again.
TEST_F(ExplainViewTest, ExplainsAFlowThatIsNamedByItsEnds) {
  const auto by_number = Json(Call("GET", "/api/v1/flows/explain", {{"flow", "h1:6"}}));
  const std::string source = by_number.Find("flow")->Find("source")->text;
  const std::string destination = by_number.Find("flow")->Find("destination")->text;
  const std::string name = source + ">" + destination;
  for (const char* suffix : {"", "#1"}) {
    const auto by_ends = Json(Call("GET", "/api/v1/flows/explain", {{"flow", name + suffix}}));
    EXPECT_EQ(by_ends.Find("flow")->Find("flow")->text, "h1:6");
  }
  for (const std::string& none : {name + "#2", name + "#0", name + "#x", destination + ">nowhere",
                                  std::string(">"), std::string("#>#")}) {
    EXPECT_EQ(Call("GET", "/api/v1/flows/explain", {{"flow", none}}).status, 404) << none;
  }
}

TEST_F(ExplainViewTest, ExplainsAFlow) {
  const auto explained = Json(Call("GET", "/api/v1/flows/explain", {{"flow", "h1:6"}}));
  EXPECT_EQ(explained.Find("port_trust")->text, "VERIFIED");
  EXPECT_EQ(explained.Find("max_load")->text, "1");
  EXPECT_EQ(explained.Find("lower_bound")->text, "1");
  EXPECT_TRUE(explained.Find("optimal")->boolean);
  EXPECT_EQ(explained.Find("theorem")->text, "a two-tier Clos with equal links");
  const auto& paths = explained.Find("paths")->items;
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_FALSE(paths[0].Find("chosen")->boolean);
  EXPECT_TRUE(paths[1].Find("chosen")->boolean);
  EXPECT_EQ(paths[1].Find("links")->items[0].Find("direction")->text, "leaf0--spine1>spine1");
  for (const char* unknown : {"", "h1", "h1:7", "nobody:1", "h1:", "h1:06"}) {
    EXPECT_EQ(Call("GET", "/api/v1/flows/explain", {{"flow", unknown}}).status, 404) << unknown;
  }
}

TEST_F(ExplainViewTest, ExplainsAFlowWithinALeafWithoutPaths) {
  cluster_.Open(0, {{.id = 9, .to = 1, .job = "A"}});
  cluster_.Settle();
  const auto explained = Parsed(ExplainView(cluster_.controller(), "h0:9").value());
  EXPECT_EQ(explained.Find("flow")->Find("status")->text, "LOCAL");
  EXPECT_EQ(explained.Find("port_trust")->text, "UNKNOWN");
  EXPECT_TRUE(explained.Find("paths")->items.empty());
  const auto unknown = ExplainView(cluster_.controller(), "h0:10");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().message.find("\"h0:10\""), std::string::npos);
}

}  // namespace
}  // namespace espalier::controller
