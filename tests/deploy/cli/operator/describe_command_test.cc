#include "deploy/cli/operator/describe_command.h"

#include <gtest/gtest.h>

#include <string>

#include "common/files/json.h"
#include "tests/deploy/cli/operator/operator_commands_fixture.h"

namespace espalier::cli {
namespace {

TEST(NamesId, FindsWholeIdsOnly) {
  EXPECT_TRUE(NamesId("link=leaf0--spine1 why=tests", "leaf0--spine1"));
  EXPECT_TRUE(NamesId("link=leaf0--spine1>leaf0", "leaf0--spine1"));
  EXPECT_TRUE(NamesId("links=\"a--b,leaf0--spine1\"", "leaf0--spine1"));
  EXPECT_TRUE(NamesId("h0", "h0"));
  EXPECT_TRUE(NamesId("h00 h0", "h0"));
  EXPECT_FALSE(NamesId("link=leaf0--spine1#2", "leaf0--spine1"));
  EXPECT_FALSE(NamesId("link=leaf0--spine12", "leaf0--spine1"));
  EXPECT_FALSE(NamesId("link=leaf0--spine1", "spine1"));
  EXPECT_FALSE(NamesId("flow=h0:5", "h0"));
  EXPECT_FALSE(NamesId("", ""));
}

class DescribeTest : public OperatorCommandsTest {
 protected:
  io::JsonValue DescribeAsJson(const std::string& kind, const std::string& id) {
    const Outcome outcome = Run({"describe", kind, id, "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const auto json = io::ParseJson(outcome.out, "describe");
    EXPECT_TRUE(json.has_value()) << outcome.out;
    for (const char* key :
         {"kind", "id", "state", "links", "flows", "history", "events", "intents", "audit"}) {
      EXPECT_NE(json->Find(key), nullptr) << key;
    }
    return *json;
  }
};

TEST_F(DescribeTest, ShowsALinkWithItsFlowsEventsAndActions) {
  Run({"drain", "link", "leaf0--spine0", "--reason", "new optics"});
  Run({"drain", "link", "leaf1--spine0"});
  const Outcome outcome = Run({"describe", "link", "leaf0--spine0"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("link leaf0--spine0\n"), 0U) << outcome.out;
  EXPECT_NE(outcome.out.find("DRAINED"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("new optics"), std::string::npos);
  EXPECT_NE(outcome.out.find("gbps                     100 Gbit/s\n"), std::string::npos);
  EXPECT_EQ(outcome.out.find(" -\n  "), std::string::npos) << "members that say nothing";
  EXPECT_NE(outcome.out.find("link_drained"), std::string::npos);
  EXPECT_NE(outcome.out.find("drain link"), std::string::npos);
  EXPECT_EQ(outcome.out.find("leaf1--spine0"), std::string::npos) << outcome.out;
  const io::JsonValue json = DescribeAsJson("link", "leaf0--spine0");
  EXPECT_EQ(json.Find("events")->items.size(), 1U);
  EXPECT_EQ(json.Find("intents")->items.size(), 1U);
  EXPECT_EQ(json.Find("audit")->items.size(), 1U);
}

TEST_F(DescribeTest, ShowsANodeWithTheEventsOfItsLinks) {
  Run({"fail", "link", "leaf0--spine1"});
  const io::JsonValue spine = DescribeAsJson("node", "spine1");
  EXPECT_EQ(spine.Find("links")->items.size(), 2U);
  EXPECT_EQ(spine.Find("events")->items.size(), 1U);
  const io::JsonValue host = DescribeAsJson("node", "h0");
  EXPECT_EQ(host.Find("flows")->items.size(), 1U);
  EXPECT_EQ(DescribeAsJson("node", "h1").Find("flows")->items.size(), 0U);
}

TEST_F(DescribeTest, ShowsJobsAgentsAndFlows) {
  Run({"weight", "A", "2"});
  const io::JsonValue job = DescribeAsJson("job", "A");
  EXPECT_EQ(job.Find("flows")->items.size(), 1U);
  EXPECT_EQ(job.Find("events")->items.size(), 1U);
  EXPECT_EQ(job.Find("audit")->items.size(), 1U);
  const io::JsonValue agent = DescribeAsJson("agent", "h0");
  EXPECT_EQ(agent.Find("events")->items.back().Find("kind")->text, "agent_up");
  EXPECT_EQ(agent.Find("flows")->items.size(), 1U);
  EXPECT_EQ(DescribeAsJson("flow", "h0:5").Find("history")->items.size(), 1U);
  // By its ends, a flow has the history of the name that it has now.
  EXPECT_EQ(DescribeAsJson("flow", "h0>h2").Find("history")->items.size(), 1U);
  EXPECT_NE(Run({"describe", "flow", "h0:5"}).out.find("VERIFIED"), std::string::npos);
  EXPECT_NE(Run({"describe", "job", "A"}).out.find("Open flows"), std::string::npos);
}

TEST_F(DescribeTest, NamesWhatIsMeantWhereThereIsNoSuchThing) {
  const Outcome link = Run({"describe", "link", "spine1-leaf0"});
  EXPECT_EQ(link.exit_code, 1);
  EXPECT_NE(link.err.find("did you mean leaf0--spine1?"), std::string::npos) << link.err;
  EXPECT_EQ(Run({"describe", "job", "nosuch"}).err,
            "espalier: there is no job \"nosuch\" (`espalier jobs` lists them)\n");
  EXPECT_EQ(Run({"describe", "flow", "h0:99"}).exit_code, 1);
  EXPECT_EQ(Run({"describe", "spine1"}).exit_code, 2);
  EXPECT_EQ(Run({"describe"}).exit_code, 2);
}

}  // namespace
}  // namespace espalier::cli
