#include "controller/api/views/link_view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/controller/api/json_schema.h"
#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

class LinkViewTest : public OperatorApiFixture {
 protected:
  fabric::LinkId Id(const std::string& link) { return *cluster_.state().topology.FindLink(link); }
  LinkTraffic Traffic() { return FlowStatistics::Take(cluster_.state()).traffic(); }
  io::JsonValue Written(const std::string& link) {
    io::JsonWriter json;
    WriteLink(json, cluster_.controller(), Id(link), Traffic());
    return Json({.status = 200, .body = json.Text()});
  }
  std::uint64_t Digest(const std::string& link) {
    return LinkDigest(cluster_.state(), Id(link), Traffic());
  }
  void Rate(std::uint64_t bps) {
    wire::FlowReport report;
    report.progress = {{.id = wire::LocalFlowId(5), .achieved_bps = bps}};
    cluster_.Report(0, report);
    cluster_.Settle();
  }
};

TEST_F(LinkViewTest, DescribesTheTopology) {
  const State& state = cluster_.state();
  const auto node = [&](const std::string& name) {
    return Json({.status = 200, .body = NodeView(state, *state.topology.FindNode(name))});
  };
  EXPECT_EQ(node("h0").Find("tier")->text, "-1");
  EXPECT_EQ(node("h0").Find("addresses")->items[0].text, cluster_.Address(0).ToString());
  EXPECT_EQ(node("leaf0").Find("tier")->text, "0");
  EXPECT_EQ(node("spine1").Find("tier")->text, "1");
  EXPECT_TRUE(node("spine1").Find("addresses")->items.empty() ||
              node("spine1").Find("kind")->text == "SWITCH");
  const auto link = Json({.status = 200, .body = BuiltLinkView(state, Id("leaf0--spine1"))});
  EXPECT_EQ(link.Find("a")->text, "leaf0");
  EXPECT_EQ(link.Find("b")->text, "spine1");
  EXPECT_EQ(link.Find("bps")->text,
            std::to_string(state.topology.link(Id("leaf0--spine1")).rate.value));
  EXPECT_FALSE(link.Find("directed")->boolean);
}

TEST_F(LinkViewTest, SeparatesTheDirectionsOfALink) {
  Rate(7'000'000'000);
  const std::string via =
      Json(Call("GET", "/api/v1/flows")).Find("flows")->items[0].Find("via")->text;
  const auto up = Written("leaf0--" + via);
  EXPECT_EQ(up.Find("flows_a_to_b")->text, "1");
  EXPECT_EQ(up.Find("flows_b_to_a")->text, "0");
  EXPECT_EQ(up.Find("load_a_to_b")->text, "1");
  EXPECT_EQ(up.Find("load_b_to_a")->text, "0");
  EXPECT_EQ(up.Find("bps_a_to_b")->text, "7000000000");
  const auto down = Written("leaf1--" + via);
  EXPECT_EQ(down.Find("flows_a_to_b")->text, "0");
  EXPECT_EQ(down.Find("flows_b_to_a")->text, "1");
  EXPECT_EQ(down.Find("bps_b_to_a")->text, "7000000000");
}

TEST_F(LinkViewTest, ExplainsWhyALinkIsNotUsed) {
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}, {"reason", "optics"}});
  Call("POST", "/api/v1/links/drain", {{"id", "leaf1--spine0"}, {"reason", "work"}});
  const auto failed = Written("leaf0--spine0");
  EXPECT_EQ(failed.Find("state")->text, "DOWN");
  EXPECT_EQ(failed.Find("reason")->text, "optics");
  EXPECT_TRUE(failed.Find("failed_by_operator")->boolean);
  EXPECT_EQ(failed.Find("load_a_to_b")->text, "0");
  const auto drained = Written("leaf1--spine0");
  EXPECT_EQ(drained.Find("state")->text, "DRAINED");
  EXPECT_EQ(drained.Find("reason")->text, "work");
  EXPECT_FALSE(drained.Find("failed_by_operator")->boolean);
}

TEST_F(LinkViewTest, ShowsWhatTestsFoundOnALossyLink) {
  const std::uint64_t before = Digest("leaf1--spine1");
  EXPECT_EQ(Written("leaf1--spine1").Find("why"), nullptr);
  const fabric::LinkId id = Id("leaf1--spine1");
  cluster_.state().link_faults[id] = {.direction = {id, true},
                                      .test = {.lost = 31, .sent = 400},
                                      .siblings = {.lost = 0, .sent = 1'600},
                                      .traffic = "TCP",
                                      .senders = 4,
                                      .receivers = 1,
                                      .suspected_by = {"h2", "sweep"}};
  Call("POST", "/api/v1/links/fail", {{"id", "leaf0--spine0"}});  // applies all states
  const auto lossy = Written("leaf1--spine1");
  const auto description = Json(Call("GET", "/api/v1/openapi.json"));
  const auto& schemas = *description.Find("components")->Find("schemas");
  EXPECT_EQ(Violation(description, *schemas.Find("Link"), lossy, "Link"), "");
  EXPECT_EQ(lossy.Find("state")->text, "LOSSY");
  EXPECT_EQ(lossy.Find("reason")->text, "");
  const auto* const why = lossy.Find("why");
  ASSERT_NE(why, nullptr);
  EXPECT_EQ(why->Find("words")->text,
            "leaf1>spine1 lost 31 of 400 TCP probes, its siblings 0 of 1,600; 4 senders and 1 "
            "receiver agree");
  EXPECT_EQ(why->Find("test")->Find("lost")->text, "31");
  EXPECT_EQ(why->Find("test")->Find("siblings_sent")->text, "1600");
  EXPECT_EQ(why->Find("test")->Find("direction")->text, "leaf1>spine1");
  EXPECT_EQ(why->Find("test")->Find("traffic")->text, "TCP");
  EXPECT_EQ(why->Find("suspected_by")->items.size(), 2U);
  EXPECT_NE(Digest("leaf1--spine1"), before);
  // An operator's action says more.
  Call("POST", "/api/v1/links/drain", {{"id", "leaf1--spine1"}, {"reason", "work"}});
  EXPECT_EQ(Written("leaf1--spine1").Find("state")->text, "DRAINED");
  EXPECT_EQ(Written("leaf1--spine1").Find("reason")->text, "work");
  EXPECT_NE(Written("leaf1--spine1").Find("why"), nullptr);
}

TEST_F(LinkViewTest, TheDigestDiffersWithTheStateAndForRatesByAnEighth) {
  const std::string via =
      Json(Call("GET", "/api/v1/flows")).Find("flows")->items[0].Find("via")->text;
  const std::string link = "leaf0--" + via;
  Rate(50'000'000'000);
  const std::uint64_t before = Digest(link);
  Rate(50'100'000'000);
  EXPECT_EQ(Digest(link), before);
  Rate(64'000'000'000);
  EXPECT_NE(Digest(link), before);
  Rate(50'000'000'000);
  EXPECT_EQ(Digest(link), before);
  cluster_.Open(1, {{.id = 50, .to = 2, .job = "A"}, {.id = 51, .to = 3, .job = "A"}});
  cluster_.Settle();
  EXPECT_NE(Digest(link), before) << "two more flows leave by two links";
  const std::uint64_t crowded = Digest(link);
  Call("POST", "/api/v1/links/drain", {{"id", link}});
  EXPECT_NE(Digest(link), crowded);
}

}  // namespace
}  // namespace espalier::controller
