#include "controller/telemetry/collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "common/base/random.h"
#include "common/fabric/builders.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "controller/telemetry/collector_view.h"
#include "tests/controller/telemetry/sflow_datagrams.h"

namespace espalier::telemetry {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr std::uint32_t kFirstPort = 100;  // of a switch: one number for each link

// A fabric of which leaf0 and spine0 send sFlow; the ports of leaf0 have names in the topology.
class CollectorTest : public testing::Test {
 protected:
  CollectorTest()
      : collector_(topology_, ListExporters(), {.most_flows = 1'000, .seed = 7}, metrics_) {}

  static fabric::Topology MakeTopology() {
    fabric::TopologySpec spec =
        *fabric::BuildLeafSpine({.fabric_rate = BitsPerSecond{1'000'000'000}});
    for (fabric::Link& link : spec.links) {
      link.a_port = "to-" + spec.nodes[link.b.Index()].id;
      link.b_port = "to-" + spec.nodes[link.a.Index()].id;
    }
    return *fabric::Topology::Build(spec);
  }
  std::vector<Exporter> ListExporters() const {
    const fabric::NodeId spine = *topology_.FindNode("spine0");
    Exporter listed{.node = spine, .agent = Address(2), .source = Address(2)};
    for (const fabric::DirectedLink out : topology_.Outgoing(spine))
      listed.ports.push_back({NumberOf(out), out});
    return {{.node = *topology_.FindNode("leaf0"), .agent = Address(1), .source = Address(1)},
            listed};
  }
  static IpAddress Address(std::uint32_t last) { return IpAddress::FromV4(0x0A000000 | last); }
  static std::uint32_t NumberOf(fabric::DirectedLink out) {
    return kFirstPort + static_cast<std::uint32_t>(out.link.Index());
  }
  fabric::DirectedLink Direction(const std::string& name) const {
    for (std::size_t i = 0; i < 2 * topology_.links().size(); ++i) {
      const auto link = fabric::DirectedLink::FromIndex(i);
      if (topology_.DirectionName(link) == name) return link;
    }
    ADD_FAILURE() << name;
    return {};
  }
  // The number of the switch's port at the start of this direction.
  std::uint32_t Port(const std::string& out) const { return NumberOf(Direction(out)); }

  using Samples = std::vector<std::pair<std::uint32_t, Bytes>>;
  void Send(std::uint32_t exporter, const Samples& samples) {
    const auto uptime = static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now_ - kStart).count());
    const Bytes bytes = Datagram({.agent = Address(exporter),
                                  .sequence = ++sequences_[exporter],
                                  .uptime_ms = uptime + 10'000},
                                 samples);
    collector_.HandleDatagram(Address(exporter), bytes, now_);
  }
  std::map<std::string, double> TakeLoads() {
    std::map<std::string, double> loads;
    for (const Collector::Load& load : collector_.TakeLoads(now_))
      loads[topology_.DirectionName(load.link)] = load.bps;
    return loads;
  }
  std::string ShownExporters() const {
    io::JsonWriter json;
    json.BeginObject();
    WriteExporters(json, collector_, now_);
    json.EndObject();
    return json.Text();
  }
  double Metric(const std::string& name) const {
    const std::string text = "\n" + metrics_.Text();
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? NAN : std::stod(text.substr(at + name.size() + 2));
  }

  const TimePoint kStart{std::chrono::hours(1)};
  TimePoint now_ = kStart;
  std::map<std::uint32_t, std::uint32_t> sequences_;
  fabric::Topology topology_ = MakeTopology();
  Metrics metrics_;
  Collector collector_;
};

TEST_F(CollectorTest, CountersTellTheLoadsOfLinksInBothDirections) {
  const std::uint32_t port = Port("leaf0--spine0>leaf0");
  Send(2, {{2, CounterSample(port, 1'000, 5'000)}});
  EXPECT_TRUE(TakeLoads().empty()) << "one reading is no rate";
  now_ += 2s;
  Send(2, {{2, CounterSample(port, 1'000 + 25'000'000, 5'000 + 100'000'000)}});
  const auto loads = TakeLoads();
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_NEAR(loads.at("leaf0--spine0>leaf0"), 400e6, 1);
  EXPECT_NEAR(loads.at("leaf0--spine0>spine0"), 100e6, 1);
  EXPECT_TRUE(TakeLoads().empty());
}

TEST_F(CollectorTest, NamesOfPortsTellTheirLinks) {
  Send(1, {{2, CounterSample(4'000, 0, 0, 0, "to-spine1")}});
  now_ += 1s;
  Send(1, {{2, CounterSample(4'000, 0, 12'500'000, 0, "to-spine1")}});
  EXPECT_NEAR(TakeLoads().at("leaf0--spine1>spine1"), 100e6, 1);
  Send(1, {{2, CounterSample(4'001, 0, 0, 0, "eth-unheard-of")}});
  const std::string shown = ShownExporters();
  EXPECT_THAT(shown, HasSubstr("\"leaf0--spine0>spine0\""));
  EXPECT_THAT(shown, testing::Not(HasSubstr("\"leaf0--spine1>spine1\"")));
}

TEST_F(CollectorTest, NumbersOfPortsAreForgottenWhenASwitchRestarts) {
  Send(1, {{2, CounterSample(4'000, 0, 0, 0, "to-spine1")}});
  now_ += 1s;
  Send(1, {{1, FlowSample(4'000, 16, RoceHeader(1, 2, 3, 4))}});
  EXPECT_EQ(Metric("espalier_telemetry_samples_total"), 1);
  // Uptime and sequence begin again, in two datagrams.
  for (const std::uint32_t sequence : {1U, 2U}) {
    const Bytes bytes = Datagram({.agent = Address(1), .sequence = sequence, .uptime_ms = sequence},
                                 {{1, FlowSample(4'000, 16, RoceHeader(1, 2, 3, 4))}});
    collector_.HandleDatagram(Address(1), bytes, now_);
  }
  EXPECT_EQ(Metric("espalier_telemetry_samples_total"), 1);
  EXPECT_EQ(collector_.unmapped(), 1U);
}

TEST_F(CollectorTest, WhatCannotBeTrueIsDropped) {
  const std::uint32_t port = Port("leaf0--spine0>leaf0");
  const auto send = [&](std::uint64_t in, std::uint64_t out) {
    now_ += 1s;
    Send(2, {{2, CounterSample(port, in, out)}});
    return TakeLoads();
  };
  send(1'000, 1'000);
  EXPECT_TRUE(send(500, 500).empty()) << "counters that fall";
  EXPECT_EQ(send(~std::uint64_t{0}, 600).size(), 1U) << "a counter that is not known";
  EXPECT_TRUE(send(0, 600 + 200'000'000).empty()) << "1.6 Gbit/s on a link of 1";
  EXPECT_EQ(Metric("espalier_telemetry_counters_implausible_total"), 0) << "told by Tick";
  collector_.Tick(now_);
  EXPECT_EQ(Metric("espalier_telemetry_counters_implausible_total"), 1);
}

TEST_F(CollectorTest, ASwitchWhoseClockJumpsTellsNoRate) {
  const std::uint32_t port = Port("leaf0--spine0>leaf0");
  Send(2, {{2, CounterSample(port, 0, 0)}});
  now_ += 1s;
  const Bytes bytes =
      Datagram({.agent = Address(2), .sequence = ++sequences_[2], .uptime_ms = 900'000},
               {{2, CounterSample(port, 1'000, 1'000)}});
  collector_.HandleDatagram(Address(2), bytes, now_);
  EXPECT_TRUE(TakeLoads().empty());
}

TEST_F(CollectorTest, SamplesTellLoadsWhereThereAreNoCounters) {
  const std::uint32_t port = Port("leaf0--spine0>leaf0");
  Random random(3);
  // 800 Mbit/s: 92,081 packets a second of 1,086 bytes, one in 100 sampled.
  double sum = 0;
  std::size_t told = 0;
  for (int ms = 0; ms < 20'000; ++ms) {
    now_ += 1ms;
    if (random.Chance(0.92081)) Send(2, {{1, FlowSample(port, 100, RoceHeader(1, 2, 3, 4))}});
    if (ms % 500 != 0) continue;
    for (const auto& [link, bps] : TakeLoads()) {
      EXPECT_EQ(link, "leaf0--spine0>spine0");
      sum += bps;
      ++told;
    }
  }
  ASSERT_GE(told, 10U);
  EXPECT_NEAR(sum / static_cast<double>(told), 800e6, 40e6);
}

TEST_F(CollectorTest, ASwitchThatSendsTooFewSamplesIsFoundByItsCounters) {
  const std::uint32_t port = Port("leaf0--spine0>leaf0");
  std::uint32_t packets = 0xFFFFFF00;  // wraps
  Send(2, {{1, FlowSample(port, 100, RoceHeader(1, 2, 3, 4))}});
  Send(2, {{2, CounterSample(port, 0, 0, packets)}});
  now_ += 10s;
  for (int i = 0; i < 50; ++i) Send(2, {{1, FlowSample(port, 100, RoceHeader(1, 2, 3, 4))}});
  packets += 20'000;  // of which one in 100 would have been 200
  Send(2, {{2, CounterSample(port, 0, 0, packets)}});
  collector_.Tick(now_);
  EXPECT_EQ(Metric("espalier_telemetry_ports_policed"), 1);
  now_ += 10s;
  for (int i = 0; i < 190; ++i) Send(2, {{1, FlowSample(port, 100, RoceHeader(1, 2, 3, 4))}});
  Send(2, {{2, CounterSample(port, 0, 0, packets + 20'000)}});
  collector_.Tick(now_);
  EXPECT_EQ(Metric("espalier_telemetry_ports_policed"), 0);
}

TEST_F(CollectorTest, FlowsAreShownWithTheLinksThatCarriedThem) {
  const std::uint32_t port = Port("leaf0--spine0>leaf0");
  for (int i = 0; i < 100; ++i) {
    now_ += 10ms;
    Send(2, {{1, FlowSample(port, 1'000, RoceHeader(0x0A000001, 0x0A020001, 50'000, 17))}});
    if (i % 10 == 0)
      Send(2, {{1, FlowSample(port, 1'000, RoceHeader(0x0A000001, 0x0A020001, 50'000, 18))}});
  }
  const auto flows = collector_.flows().Top(10, 3, now_);
  ASSERT_EQ(flows.size(), 2U);
  EXPECT_EQ(flows[0].key.queue_pair, 17U);
  EXPECT_EQ(flows[0].links.at(0).samples, 100U);
  // 100 samples in a second, each for 1,000 packets of 1,086 bytes.
  EXPECT_NEAR(flows[0].bps, 869e6, 20e6);
  EXPECT_NEAR(flows[0].error, 0.196, 0.001);
  EXPECT_NEAR(flows[1].error, 0.62, 0.01);
  const std::string shown = ShowFlows(collector_, 1, now_);
  const auto parsed = io::ParseJson(shown, "shown");
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->Find("flows")->items.size(), 1U);
  EXPECT_EQ(parsed->Find("flows")->items[0].Find("queue_pair")->text, "17");
  EXPECT_THAT(shown, HasSubstr("\"leaf0--spine0>spine0\""));
}

TEST_F(CollectorTest, FlowsThatHaveEndedMakeRoomAndTooManyAreCounted) {
  const std::uint32_t port = Port("leaf0--spine0>leaf0");
  for (std::uint32_t i = 0; i < 1'100; ++i)
    Send(2, {{1, FlowSample(port, 10, RoceHeader(0x0A000001, 0x0A020001, 50'000, i))}});
  EXPECT_EQ(collector_.flows().size(), 1'000U);
  EXPECT_EQ(collector_.flows().left_out(), 100U);
  now_ += 11s;
  collector_.Tick(now_);
  EXPECT_EQ(collector_.flows().size(), 0U);
  Send(2, {{1, FlowSample(port, 10, RoceHeader(0x0A000001, 0x0A020001, 50'000, 5'000))}});
  EXPECT_EQ(collector_.flows().size(), 1U);
}

TEST_F(CollectorTest, StrangersAndRubbishChangeNothing) {
  const Bytes good =
      Datagram({.agent = Address(2), .sequence = 1},
               {{1, FlowSample(Port("leaf0--spine0>leaf0"), 1, RoceHeader(1, 2, 3, 4))}});
  collector_.HandleDatagram(Address(9), good, now_);
  collector_.HandleDatagram(Address(1), good, now_);  // one switch in the name of another
  collector_.HandleDatagram(Address(2), std::span(good).first(good.size() - 4), now_);
  EXPECT_EQ(collector_.flows().size(), 0U);
  EXPECT_EQ(Metric("espalier_telemetry_datagrams_strange_total"), 2);
  EXPECT_EQ(Metric("espalier_telemetry_datagrams_malformed_total"), 1);
  collector_.HandleDatagram(Address(2), good, now_);
  collector_.HandleDatagram(Address(2), good, now_);
  EXPECT_EQ(Metric("espalier_telemetry_datagrams_repeated_total"), 1);
  EXPECT_EQ(collector_.flows().size(), 1U);
}

}  // namespace
}  // namespace espalier::telemetry
