#include "controller/telemetry/polls/polled_switches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "common/files/json_writer.h"
#include "controller/telemetry/polls/polls_view.h"

namespace espalier::telemetry {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// A fabric of which leaf0 is polled by two sources and spine0 by one. The topology names the ports
// "to-NODE"; that of leaf0--spine1 is "Ethernet1" at leaf0, by the configuration.
class PolledSwitchesTest : public testing::Test {
 protected:
  enum Source : std::size_t { kLeaf, kLeafAgain, kSpine };

  static fabric::Topology MakeTopology() {
    fabric::TopologySpec spec =
        *fabric::BuildLeafSpine({.fabric_rate = BitsPerSecond{1'000'000'000}});
    for (fabric::Link& link : spec.links) {
      link.a_port = "to-" + spec.nodes[link.b.Index()].id;
      link.b_port = "to-" + spec.nodes[link.a.Index()].id;
    }
    return *fabric::Topology::Build(spec);
  }
  std::vector<Poll> ListPolls() const {
    const PortReader* const reader = FindPortReader("ports");
    const Poll leaf{.node = *topology_.FindNode("leaf0"),
                    .reader = reader,
                    .target = {.address = "", .path = "", .argv = {"list", "secret"}},
                    .ports = {{.index = 0, .out = Out("leaf0--spine1"), .name = "Ethernet1"}}};
    return {leaf,
            leaf,
            {.node = *topology_.FindNode("spine0"),
             .reader = reader,
             .target = {.address = "", .path = "", .argv = {"list"}},
             .ports = {}}};
  }
  // The direction in which the link leaves leaf0.
  fabric::DirectedLink Out(const std::string& link) const {
    return {*topology_.FindLink(link), true};
  }

  void Answer(Source source, std::vector<PortReading> ports) {
    switches_.HandleReadings(source, {.ports = std::move(ports)}, now_);
  }
  void Wait(Duration time) {
    now_ += time;
    switches_.Tick(now_);
  }
  // The states that are due to be reported; they are accepted.
  std::vector<std::string> TakeStates() {
    std::vector<std::string> states;
    const auto due = switches_.links().Due();
    for (const auto& state : due) {
      states.push_back(topology_.link(state.link).id + (state.is_up ? " up" : " down"));
    }
    switches_.links().HandleAccepted(due);
    return states;
  }
  PortState StateOf(const std::string& link) {
    return switches_.links().Of(*topology_.FindLink(link));
  }
  std::map<std::string, double> TakeLoads(const std::vector<Collector::Load>& sflow = {}) {
    std::map<std::string, double> loads;
    for (const Collector::Load& load : switches_.TakeLoads(sflow, now_))
      loads[topology_.DirectionName(load.link)] = load.bps;
    return loads;
  }
  double Metric(const std::string& name) const {
    const std::string text = "\n" + metrics_.Text();
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? NAN : std::stod(text.substr(at + name.size() + 2));
  }
  std::string Shown() const {
    io::JsonWriter json;
    json.BeginObject();
    WritePolls(json, switches_, now_);
    json.EndObject();
    return json.Text();
  }
  static PortReading Up(const std::string& name) { return {.name = name, .state = PortState::kUp}; }
  static PortReading Down(const std::string& name) {
    return {.name = name, .state = PortState::kDown};
  }
  static PortReading Counted(const std::string& name, std::uint64_t rx, std::uint64_t tx,
                             double speed_bps = 0) {
    return {.name = name, .rx_bytes = rx, .tx_bytes = tx, .speed_bps = speed_bps};
  }

  TimePoint now_{std::chrono::hours(1)};
  fabric::Topology topology_ = MakeTopology();
  Metrics metrics_;
  PolledSwitches switches_{
      topology_, ListPolls(), {.interval = 1s, .counters_interval = 2s}, metrics_, now_};
};

TEST_F(PolledSwitchesTest, ReportsWhatChangesAndNothingTwice) {
  Answer(kLeaf, {Up("to-spine0"), Up("Ethernet1"), Up("to-h0"), Up("lo")});
  EXPECT_THAT(TakeStates(), UnorderedElementsAre("leaf0--spine0 up", "leaf0--spine1 up"));
  Answer(kLeaf, {Up("to-spine0"), Up("Ethernet1")});
  EXPECT_THAT(TakeStates(), IsEmpty());
  Answer(kLeaf, {Down("to-spine0"), Up("Ethernet1")});
  EXPECT_THAT(TakeStates(), ElementsAre("leaf0--spine0 down"));
  Answer(kLeaf, {Up("to-spine0"), Up("Ethernet1")});
  EXPECT_THAT(TakeStates(), ElementsAre("leaf0--spine0 up"));
}

TEST_F(PolledSwitchesTest, ALinkIsDownIfEitherEndIs) {
  Answer(kLeaf, {Up("to-spine0")});
  Answer(kSpine, {Down("to-leaf0")});
  EXPECT_THAT(TakeStates(), ElementsAre("leaf0--spine0 down"));
  Answer(kLeaf, {Down("to-spine0")});
  Answer(kSpine, {Up("to-leaf0")});
  EXPECT_THAT(TakeStates(), IsEmpty()) << "the other end is down now";
  Answer(kLeaf, {Up("to-spine0")});
  EXPECT_THAT(TakeStates(), ElementsAre("leaf0--spine0 up"));
}

TEST_F(PolledSwitchesTest, APortIsDownOnlyIfTheTopologyNamesItOrItWasUp) {
  Answer(kLeaf, {Down("Ethernet1"), Down("to-spine0")});
  EXPECT_THAT(TakeStates(), ElementsAre("leaf0--spine0 down"));
  EXPECT_EQ(StateOf("leaf0--spine1"), PortState::kUnknown);
  Answer(kLeaf, {Up("Ethernet1"), Down("to-spine0")});
  Answer(kLeaf, {Down("Ethernet1"), Down("to-spine0")});
  EXPECT_THAT(TakeStates(), ElementsAre("leaf0--spine1 down"));
}

TEST_F(PolledSwitchesTest, SilenceMakesLinksUnknownNeverDown) {
  Answer(kLeaf, {Up("to-spine0"), Down("to-spine1")});
  TakeStates();
  Wait(2'999ms);
  EXPECT_EQ(StateOf("leaf0--spine0"), PortState::kUp);
  EXPECT_FALSE(switches_.SourceOf(kLeaf).is_silent);
  switches_.HandleFailure(kLeaf, "connection refused");
  Wait(1ms);
  EXPECT_EQ(StateOf("leaf0--spine0"), PortState::kUnknown);
  EXPECT_EQ(StateOf("leaf0--spine1"), PortState::kUnknown);
  EXPECT_THAT(TakeStates(), IsEmpty());
  EXPECT_EQ(Metric("espalier_telemetry_polls_silent"), 3);
  EXPECT_EQ(Metric("espalier_telemetry_polls_failed_total"), 1);
  EXPECT_THAT(Shown(), HasSubstr("\"silent\":true"));
  EXPECT_THAT(Shown(), HasSubstr("\"problem\":\"connection refused\""));
  // It is back: what has changed in between is reported.
  Answer(kLeaf, {Up("to-spine0"), Up("Ethernet1")});
  EXPECT_FALSE(switches_.SourceOf(kLeaf).is_silent);
  EXPECT_EQ(StateOf("leaf0--spine0"), PortState::kUp);
  EXPECT_THAT(TakeStates(), ElementsAre("leaf0--spine1 up"));
  Wait(0ms);
  EXPECT_EQ(Metric("espalier_telemetry_polls_silent"), 2);
}

TEST_F(PolledSwitchesTest, ADownThatWasNotReportedYetIsForgottenInSilence) {
  Answer(kLeaf, {Down("to-spine0")});
  Wait(3s);
  EXPECT_THAT(TakeStates(), IsEmpty());
}

TEST_F(PolledSwitchesTest, APortThatIsMissingInAnAnswerIsUnknown) {
  Answer(kLeaf, {Up("to-spine0"), Up("Ethernet1")});
  TakeStates();
  Answer(kLeaf, {Up("to-spine0")});
  EXPECT_EQ(StateOf("leaf0--spine1"), PortState::kUnknown);
  EXPECT_THAT(TakeStates(), IsEmpty());
  EXPECT_EQ(switches_.SourceOf(kLeaf).up, 1U);
  const auto missing = switches_.Missing(kLeaf);
  EXPECT_THAT(missing, testing::Contains("leaf0--spine1>spine1"));
  EXPECT_THAT(missing, testing::Not(testing::Contains("leaf0--spine0>spine0")));
}

TEST_F(PolledSwitchesTest, ListsNamesThatStandForNoLink) {
  Answer(kLeaf, {Up("to-spine0"), Up("lo"), Up("a\x1b[2J"), Up("to-spine1")});
  std::vector<PortReading> many;
  for (int i = 0; i < 1'000; ++i) many.push_back(Up("veth" + std::to_string(i)));
  Answer(kLeafAgain, many);
  Wait(0ms);
  EXPECT_THAT(switches_.SourceOf(kLeaf).unmatched, ElementsAre("a?[2J", "lo", "to-spine1"))
      << "the configuration's name replaces that of the topology";
  EXPECT_EQ(switches_.SourceOf(kLeafAgain).unmatched.size(), PolledSwitches::kMostUnmatched);
  EXPECT_EQ(Metric("espalier_telemetry_poll_ports_unmatched"),
            3 + static_cast<double>(PolledSwitches::kMostUnmatched));
  EXPECT_THAT(Shown(), HasSubstr("a?[2J"));
  EXPECT_THAT(Shown(), testing::Not(HasSubstr("secret"))) << "arguments of a command";
}

TEST_F(PolledSwitchesTest, CountersTellLoadsOnceAnInterval) {
  Answer(kLeaf, {Counted("to-spine0", 1'000, 5'000)});
  EXPECT_THAT(TakeLoads(), IsEmpty()) << "one reading is no rate";
  now_ += 1s;
  Answer(kLeaf, {Counted("to-spine0", 1'000, 5'000)});
  EXPECT_THAT(TakeLoads(), IsEmpty()) << "before the interval of counters";
  now_ += 1s;
  Answer(kLeaf, {Counted("to-spine0", 1'000 + 25'000'000, 5'000 + 100'000'000)});
  const auto loads = TakeLoads();
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_NEAR(loads.at("leaf0--spine0>spine0"), 400e6, 1);
  EXPECT_NEAR(loads.at("leaf0--spine0>leaf0"), 100e6, 1);
}

TEST_F(PolledSwitchesTest, CountersThatCannotBeTrueAreDropped) {
  const auto answer = [&](std::uint64_t rx, std::uint64_t tx, double speed_bps) {
    now_ += 2s;
    Answer(kLeaf, {Counted("to-spine0", rx, tx, speed_bps)});
    return TakeLoads();
  };
  answer(1'000'000'000, 1'000'000'000, 0);
  EXPECT_THAT(answer(0, 0, 0), IsEmpty()) << "a reset";
  EXPECT_EQ(answer(25'000'000, 25'000'000, 0).size(), 2U);
  EXPECT_EQ(answer(50'000'000, 1'000'000'000, 0).size(), 1U) << "3.9 Gbit/s on a link of 1";
  EXPECT_THAT(answer(75'000'000, 1'025'000'000, 50e6), IsEmpty()) << "100 Mbit/s by a port of 50";
  EXPECT_EQ(answer(75'000'000, 1'025'000'000, 50e6).size(), 2U) << "none";
  Wait(0ms);
  EXPECT_EQ(Metric("espalier_telemetry_poll_counters_implausible_total"), 3);
}

TEST_F(PolledSwitchesTest, OneSourceCountsAPortUntilItIsSilent) {
  const auto answer = [&](Source source, std::uint64_t tx) {
    Answer(source, {{.name = "to-spine0", .tx_bytes = tx}});
    return TakeLoads().size();
  };
  answer(kLeaf, 0);
  now_ += 2s;
  answer(kLeafAgain, 7'000'000);
  EXPECT_EQ(answer(kLeaf, 1'000'000), 1U);
  now_ += 2s;
  answer(kLeafAgain, 8'000'000);
  Wait(1s);
  EXPECT_TRUE(switches_.SourceOf(kLeaf).is_silent);
  now_ += 1s;
  EXPECT_EQ(answer(kLeafAgain, 9'000'000), 0U) << "its first reading that counts";
  now_ += 2s;
  EXPECT_EQ(answer(kLeafAgain, 10'000'000), 1U);
}

TEST_F(PolledSwitchesTest, PollsGoBeforeSflowWhileTheyTellLoads) {
  const std::vector<Collector::Load> sflow = {{Out("leaf0--spine0"), 111},
                                              {Out("leaf0--spine1"), 222}};
  EXPECT_EQ(TakeLoads(sflow).size(), 2U);
  Answer(kLeaf, {Counted("to-spine0", 0, 0)});
  now_ += 2s;
  Answer(kLeaf, {Counted("to-spine0", 0, 25'000'000)});
  const auto both = TakeLoads(sflow);
  EXPECT_NEAR(both.at("leaf0--spine0>spine0"), 100e6, 1);
  EXPECT_EQ(both.at("leaf0--spine1>spine1"), 222);
  now_ += 5'999ms;
  EXPECT_EQ(TakeLoads(sflow).count("leaf0--spine0>spine0"), 0U);
  now_ += 1ms;
  EXPECT_EQ(TakeLoads(sflow).at("leaf0--spine0>spine0"), 111);
}

TEST(LinkStates, AStateThatTheControllerRefusesIsLeftOutAlone) {
  constexpr std::int32_t kLinks = 200;
  const fabric::LinkId stranger(77);
  LinkStates states(kLinks);
  for (std::int32_t i = 0; i < kLinks; ++i) {
    states.HandlePort(fabric::LinkId(i), PortState::kUnknown, PortState::kUp);
  }
  states.HandlePort(fabric::LinkId(199), PortState::kUp, PortState::kDown);
  EXPECT_EQ(states.Due().front(), (LinkStates::LinkState{fabric::LinkId(199), false}));
  std::size_t accepted = 0;
  int reports = 0;
  for (auto due = states.Due(); !due.empty(); due = states.Due()) {
    ASSERT_LE(due.size(), LinkStates::kMostOfReport);
    ASSERT_LT(++reports, 100);
    const bool is_refused = std::ranges::any_of(
        due, [&](const LinkStates::LinkState& state) { return state.link == stranger; });
    if (is_refused) {
      states.HandleRefused(due);
    } else {
      states.HandleAccepted(due);
      accepted += due.size();
    }
  }
  EXPECT_EQ(accepted, kLinks - 1U);
}

}  // namespace
}  // namespace espalier::telemetry
