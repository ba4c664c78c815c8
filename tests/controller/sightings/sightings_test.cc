// What switches saw, against what a controller has decided, through its API.
#include "controller/sightings/sightings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

using Links = std::vector<std::pair<std::string, int>>;

// Flow h0:5 goes from leaf0 to leaf1, from the queue pair 7 to 9; h1:6 has no queue pairs.
class SightingsTest : public OperatorApiFixture {
 protected:
  SightingsTest() {
    cluster_.End(0, 5);
    cluster_.Open(0, {{.id = 7, .to = 2, .job = "A", .local_qpn = 7, .remote_qpn = 9}});
    cluster_.Settle();
    cluster_.Advance(1s);
  }
  std::string Spine() { return fmt::format("spine{}", cluster_.AppliedSpine(0, 7, 2)); }
  std::string OtherSpine() { return cluster_.AppliedSpine(0, 7, 2) == 0 ? "spine1" : "spine0"; }
  std::uint16_t Port() { return cluster_.host(0).ports.at(7); }
  Links Over(const std::string& spine, int samples) const {
    return {{fmt::format("leaf0--{0}>{0}", spine), samples},
            {fmt::format("leaf1--{}>leaf1", spine), samples}};
  }
  static std::string Seen(const std::string& source, const std::string& destination, int port,
                          int queue_pair, const Links& links, double bps = 5e9) {
    std::string on;
    for (const auto& [link, samples] : links) {
      on += fmt::format(R"({}{{"link": "{}", "samples": {}}})", on.empty() ? "" : ", ", link,
                        samples);
    }
    return fmt::format(
        R"({{"source": "{}", "destination": "{}", "protocol": 17, "source_port": {},
             "destination_port": 4791, "queue_pair": {}, "bps": {}, "error": 0.2, "links": [{}]}})",
        source, destination, port, queue_pair, bps, on);
  }
  std::string SeenOfFlow(int port, const Links& links) {
    return Seen(cluster_.Address(0).ToString(), cluster_.Address(2).ToString(), port, 9, links);
  }
  io::HttpResponse Report(const std::vector<std::string>& flows) {
    return Call("POST", "/api/v1/flows/seen", {},
                fmt::format(R"({{"source": "sflow", "window_seconds": 4, "flows": [{}]}})",
                            fmt::join(flows, ",\n")));
  }
  // Reports the same for eight seconds, longer than the window and kSettled.
  void ReportOnAndOn(const std::string& flow) {
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(Report({flow}).status, 200);
      cluster_.Advance(2s);
    }
  }
  io::JsonValue Attested() {
    const auto explained = Json(Call("GET", "/api/v1/flows/explain", {{"flow", "h0:7"}}));
    return *explained.Find("flow")->Find("attested");
  }
  std::string StateOf() { return Attested().Find("state")->text; }
  std::vector<std::string> Events() {
    std::vector<std::string> texts;
    for (const HistoryEvent& event : cluster_.state().history.Since(0, 1'000)) {
      if (event.kind == "flow_seen_elsewhere") texts.push_back(event.text);
    }
    return texts;
  }
  std::string Status() { return Call("GET", "/api/v1/status").body; }
};

TEST_F(SightingsTest, AFlowOnItsLinksIsAttestedOnceItsPortHasSettled) {
  const std::string seen = SeenOfFlow(Port(), Over(Spine(), 20));
  EXPECT_EQ(StateOf(), "NOT_SEEN");
  EXPECT_EQ(Report({seen}).body, R"({"taken":1})");
  cluster_.Advance(2s);
  Report({seen});
  EXPECT_EQ(StateOf(), "NOT_SEEN") << "the packets may be those before the port changed";
  ReportOnAndOn(seen);
  EXPECT_EQ(StateOf(), "AS_DECIDED");
  EXPECT_THAT(Status(), HasSubstr(R"("flows_seen_as_decided":1,"flows_seen_elsewhere":0)"));
  EXPECT_EQ(Attested().Find("samples")->text, "40");
  EXPECT_EQ(Attested().Find("via")->items.size(), 2U);
  EXPECT_THAT(Events(), IsEmpty());
  cluster_.Advance(31s);
  EXPECT_EQ(StateOf(), "NOT_SEEN") << "reports age";
}

TEST_F(SightingsTest, AFlowThatTheDriverSendsFromAnotherPortIsNamed) {
  ReportOnAndOn(SeenOfFlow(61'234, Over(OtherSpine(), 5)));
  EXPECT_EQ(StateOf(), "ELSEWHERE");
  ASSERT_EQ(Events().size(), 1U) << "told once";
  EXPECT_THAT(Events()[0], HasSubstr("flow=h0:7 host=h0 device="));
  EXPECT_THAT(Events()[0], HasSubstr("cause=port_not_on_wire"));
  EXPECT_THAT(Events()[0], HasSubstr("leaf0--" + OtherSpine() + ">" + OtherSpine()));
  EXPECT_THAT(Status(), HasSubstr(R"("flows_seen_as_decided":0,"flows_seen_elsewhere":1)"));
  EXPECT_THAT(Status(), HasSubstr("switches see 1 flow on other links than decided"));
  EXPECT_THAT(Status(), HasSubstr("\"health\":\"degraded\""));
}

// What a feed says moves nobody's traffic, as a stranger can forge it.
TEST_F(SightingsTest, ReportsOfAnotherPortDoNotEndSteering) {
  const std::uint16_t port = Port();
  for (int i = 0; i < 3; ++i) ReportOnAndOn(SeenOfFlow(61'234, Over(OtherSpine(), 5)));
  EXPECT_EQ(StateOf(), "ELSEWHERE");
  EXPECT_EQ(cluster_.FlowOf(0, 7).status, FlowStatus::kRouted);
  EXPECT_EQ(Port(), port);
}

TEST_F(SightingsTest, APortOnOtherLinksThanKnownIsVerifiedAndMovesNothing) {
  const std::uint16_t port = Port();
  const int probes = cluster_.host(0).probes;
  ReportOnAndOn(SeenOfFlow(port, Over(OtherSpine(), 5)));
  EXPECT_EQ(StateOf(), "ELSEWHERE");
  ASSERT_EQ(Events().size(), 1U);
  EXPECT_THAT(Events()[0], HasSubstr("cause=path_map_stale"));
  EXPECT_GT(cluster_.host(0).probes, probes);
  EXPECT_EQ(Port(), port) << "probes show that the map is right: the report was not";
}

// Regression: trains of probes, which have the flow's source port and another path, as their
// destination port differs, were taken for the flow.
TEST_F(SightingsTest, PacketsToAnotherPortAreNotTheFlow) {
  const std::string source = cluster_.Address(0).ToString();
  const std::string destination = cluster_.Address(2).ToString();
  std::string probe = Seen(source, destination, Port(), 0, Over(OtherSpine(), 5));
  probe.replace(probe.find("4791"), 4, "4820");
  ReportOnAndOn(probe);
  EXPECT_EQ(StateOf(), "NOT_SEEN");
  ReportOnAndOn(SeenOfFlow(Port(), Over(Spine(), 5)));
  EXPECT_EQ(StateOf(), "AS_DECIDED");
}

TEST_F(SightingsTest, APortOnSeveralPathsIsSpreadByASwitch) {
  Links both = Over(Spine(), 5);
  for (const auto& link : Over(OtherSpine(), 5)) both.push_back(link);
  ReportOnAndOn(SeenOfFlow(Port(), both));
  ASSERT_EQ(Events().size(), 1U);
  EXPECT_THAT(Events()[0], HasSubstr("cause=spread_by_switch"));
}

TEST_F(SightingsTest, TwoSamplesElsewhereSayNothing) {
  ReportOnAndOn(SeenOfFlow(Port(), {{"leaf0--" + OtherSpine() + ">" + OtherSpine(), 2}}));
  EXPECT_EQ(StateOf(), "NOT_SEEN");
  EXPECT_THAT(Events(), IsEmpty());
}

TEST_F(SightingsTest, TheLinksOfNicsSayNothing) {
  ReportOnAndOn(SeenOfFlow(Port(), {{"h0--leaf0>leaf0", 100}}));
  EXPECT_EQ(StateOf(), "NOT_SEEN");
}

TEST_F(SightingsTest, AFlowThatMovesIsJudgedAnew) {
  ReportOnAndOn(SeenOfFlow(Port(), Over(Spine(), 20)));
  ASSERT_EQ(StateOf(), "AS_DECIDED");
  const std::string before = Spine();
  ASSERT_TRUE(cluster_.ChangeNode(before, IntentAction::kFail));
  cluster_.Settle();
  ASSERT_NE(Spine(), before);
  EXPECT_EQ(StateOf(), "NOT_SEEN");
  Report({SeenOfFlow(Port(), Over(before, 20))});
  EXPECT_EQ(StateOf(), "NOT_SEEN") << "packets of the time before the move";
}

TEST_F(SightingsTest, LargeFlowsThatNobodyReportsAreListed) {
  const std::string h1 = cluster_.Address(1).ToString();
  const std::string h2 = cluster_.Address(2).ToString();
  Report({Seen(h1, h2, 50'000, 0, Over("spine0", 30), 5e9), Seen(h1, h2, 50'001, 0, {}, 5e8),
          Seen("192.0.2.1", h2, 50'002, 77, {{"leaf1--spine0>leaf1", 9}}, 2e9),
          SeenOfFlow(Port(), Over(Spine(), 20))});
  const auto list = Json(Call("GET", "/api/v1/flows/unannounced"));
  const auto& flows = list.Find("flows")->items;
  ASSERT_EQ(flows.size(), 2U) << "neither the small one nor that which an agent reports";
  EXPECT_EQ(flows[0].Find("source")->text, "h1");
  EXPECT_EQ(flows[0].Find("destination")->text, "h2");
  EXPECT_EQ(flows[0].Find("bps")->text, "5000000000");
  EXPECT_EQ(flows[0].Find("via")->text, "leaf0--spine0>spine0 leaf1--spine0>leaf1");
  EXPECT_EQ(flows[1].Find("source")->text, "192.0.2.1");
  EXPECT_EQ(flows[1].Find("queue_pair")->text, "77");
  cluster_.Advance(31s);
  EXPECT_THAT(Json(Call("GET", "/api/v1/flows/unannounced")).Find("flows")->items, IsEmpty());
}

TEST_F(SightingsTest, BadReportsChangeNothing) {
  const std::string good = SeenOfFlow(Port(), Over(Spine(), 20));
  const auto post = [&](const std::string& body) {
    return Call("POST", "/api/v1/flows/seen", {}, body).status;
  };
  const auto report = [&](const std::string& flow) { return Report({good, flow}).status; };
  EXPECT_EQ(post("{"), 400);
  EXPECT_EQ(post(R"({"source": "", "window_seconds": 4, "flows": []})"), 400);
  EXPECT_EQ(post(R"({"source": "x", "window_seconds": 0, "flows": []})"), 400);
  EXPECT_EQ(post(R"({"source": "x", "window_seconds": 21, "flows": []})"), 400);
  EXPECT_EQ(post(R"({"source": "x", "window_seconds": 1e300, "flows": []})"), 400);
  EXPECT_EQ(post(R"({"source": "x", "window_seconds": 4})"), 400);
  EXPECT_EQ(report(Seen("here", "10.0.0.1", 1, 0, {})), 400);
  EXPECT_EQ(report(Seen("10.0.0.1", "10.0.0.2", 70'000, 0, {})), 400);
  EXPECT_EQ(report(Seen("10.0.0.1", "10.0.0.2", 1, 0, {{"leaf0--spine9>spine9", 3}})), 404);
  EXPECT_EQ(report(Seen("10.0.0.1", "10.0.0.2", 1, 0, {{"leaf0--spine0", 3}})), 404);
  EXPECT_EQ(report(Seen("10.0.0.1", "10.0.0.2", 1, 0, {{"leaf0--spine0>spine0", 0}})), 400);
  EXPECT_EQ(report(Seen("10.0.0.1", "10.0.0.2", 1, 0, {}, -5)), 400);
  EXPECT_EQ(report(Seen("10.0.0.1", "10.0.0.2", 1, 0, Links(17, {"leaf0--spine0>spine0", 1}))),
            400);
  EXPECT_EQ(cluster_.CounterValue("espalier_controller_sighting_reports_total"), 0);
  EXPECT_THAT(Json(Call("GET", "/api/v1/flows/unannounced")).Find("flows")->items, IsEmpty());
  std::string many;
  for (std::size_t i = 0; i <= Sightings::kMostFlows; ++i)
    many += (many.empty() ? "" : ",") + Seen("10.0.0.1", "10.0.0.2", 1, 0, {});
  EXPECT_EQ(post(fmt::format(R"({{"source": "x", "window_seconds": 4, "flows": [{}]}})", many)),
            400);
}

}  // namespace
}  // namespace espalier::controller
