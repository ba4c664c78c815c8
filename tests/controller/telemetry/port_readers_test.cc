#include "controller/telemetry/polls/port_readers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace espalier::telemetry {
namespace {

using testing::HasSubstr;

// Of node_exporter 1.5.0 with a link that works (swp1), one whose other end is off (swp2), and an
// interface that is off (swp3).
constexpr std::string_view kNodeExporter =
    R"(# HELP node_network_carrier Network device property: carrier
# TYPE node_network_carrier gauge
node_network_carrier{device="lo"} 1
node_network_carrier{device="swp1"} 1
node_network_carrier{device="swp2"} 0
# HELP node_network_carrier_changes_total Network device property: carrier_changes_total
# TYPE node_network_carrier_changes_total counter
node_network_carrier_changes_total{device="swp1"} 2
# HELP node_network_info Non-numeric data from /sys/class/net/<iface>, value is always 1.
# TYPE node_network_info gauge
node_network_info{address="0e:ca:04:d9:27:86",broadcast="ff:ff:ff:ff:ff:ff",device="swp1",duplex="full",ifalias="",operstate="up"} 1
# HELP node_network_receive_bytes_total Network device statistic receive_bytes.
# TYPE node_network_receive_bytes_total counter
node_network_receive_bytes_total{device="swp1"} 426
node_network_receive_bytes_total{device="swp2"} 6.4910168e+07
node_network_receive_bytes_total{device="swp3"} 0
# HELP node_network_speed_bytes Network device property: speed_bytes
# TYPE node_network_speed_bytes gauge
node_network_speed_bytes{device="swp1"} 1.25e+09
node_network_speed_bytes{device="swp2"} -125000
# HELP node_network_transmit_bytes_total Network device statistic transmit_bytes.
# TYPE node_network_transmit_bytes_total counter
node_network_transmit_bytes_total{device="swp1"} 266
# HELP node_network_up Value is 1 if operstate is 'up', 0 otherwise.
# TYPE node_network_up gauge
node_network_up{device="lo"} 0
node_network_up{device="swp1"} 1
node_network_up{device="swp2"} 0
node_network_up{device="swp3"} 0
)";

// Of FRR 8.4.4, shortened: the same ports.
constexpr std::string_view kFrr = R"({
  "swp1":{
    "administrativeStatus":"up",
    "operationalStatus":"up",
    "linkDetection":true,
    "linkUps":0,
    "linkDown":false,
    "mtu":1500,
    "speed":10000,
    "flags":"<UP,BROADCAST,RUNNING,MULTICAST>",
    "ipAddresses":[
    ],
    "evpnMh":{
    },
    "parentInterface":"p1"
  },
  "swp2":{
    "administrativeStatus":"up",
    "operationalStatus":"down",
    "speed":4294967295
  },
  "swp3":{
    "administrativeStatus":"down",
    "linkUps":0,
    "speed":10000
  }
})";

class PortReaders : public testing::Test {
 protected:
  // Reads an answer, whose ports are then in ports_.
  Result<PortReadings> Read(std::string_view reader, std::string_view text) {
    Result<PortReadings> readings = FindPortReader(reader)->Read(
        text, [](std::string_view name) { return name.starts_with("swp"); });
    ports_.clear();
    if (!readings) return readings;
    for (const PortReading& port : readings->ports) ports_[port.name] = port;
    return readings;
  }
  std::string ErrorOf(std::string_view reader, std::string_view text) {
    const Result<PortReadings> readings = Read(reader, text);
    return readings ? "" : readings.error().message;
  }

  std::map<std::string, PortReading> ports_;
};

TEST_F(PortReaders, NodeExporterTellsStateCountersAndSpeed) {
  const auto readings = Read("prometheus", kNodeExporter);
  ASSERT_TRUE(readings) << readings.error().message;
  EXPECT_EQ(readings->refused, 0U);
  EXPECT_EQ(ports_.size(), 4U);
  EXPECT_EQ(ports_["swp1"].state, PortState::kUp);
  EXPECT_EQ(ports_["swp1"].rx_bytes, 426U);
  EXPECT_EQ(ports_["swp1"].tx_bytes, 266U);
  EXPECT_EQ(ports_["swp1"].speed_bps, 10e9);
  EXPECT_EQ(ports_["swp2"].state, PortState::kDown);
  EXPECT_EQ(ports_["swp2"].rx_bytes, 64'910'168U);
  EXPECT_FALSE(ports_["swp2"].tx_bytes);
  EXPECT_EQ(ports_["swp2"].speed_bps, 0);
  EXPECT_EQ(ports_["swp3"].state, PortState::kDown) << "it has no carrier and is not up";
  EXPECT_EQ(ports_["lo"].state, PortState::kUp);
}

TEST_F(PortReaders, OtherExportersTellTheSame) {
  const auto readings =
      Read("prometheus",
           "nvswitch_interface_oper_state{interface=\"swp61s0\"} 1\r\n"
           "nvswitch_interface_oper_state{ interface=\"swp1\" , } 2 1722458198491\n"
           "nvswitch_interface_oper_state{interface=\"swp2\"} 4\n"
           "nvswitch_interface_if_in_octets{interface=\"swp1\"} 7\n"
           "ifOperStatus{ifAlias=\"a \\\"b\\\" c\",ifName=\"swp3\"} 1\n"
           "ifHCOutOctets{ifIndex=\"3\",ifName=\"swp3\"} 1e3\n"
           "ifHighSpeed{ifName=\"swp3\"} 400000");
  ASSERT_TRUE(readings) << readings.error().message;
  EXPECT_EQ(readings->refused, 0U);
  EXPECT_EQ(ports_["swp61s0"].state, PortState::kUp);
  EXPECT_EQ(ports_["swp1"].state, PortState::kDown);
  EXPECT_EQ(ports_["swp1"].rx_bytes, 7U);
  EXPECT_EQ(ports_["swp2"].state, PortState::kUnknown);
  EXPECT_EQ(ports_["swp3"].state, PortState::kUp);
  EXPECT_EQ(ports_["swp3"].tx_bytes, 1'000U);
  EXPECT_EQ(ports_["swp3"].speed_bps, 400e9);
}

TEST_F(PortReaders, FrrTellsStateAndSpeed) {
  const auto readings = Read("frr", kFrr);
  ASSERT_TRUE(readings) << readings.error().message;
  EXPECT_EQ(readings->refused, 0U);
  EXPECT_EQ(ports_["swp1"].state, PortState::kUp);
  EXPECT_EQ(ports_["swp1"].speed_bps, 10e9);
  EXPECT_FALSE(ports_["swp1"].rx_bytes);
  EXPECT_EQ(ports_["swp2"].state, PortState::kDown);
  EXPECT_EQ(ports_["swp2"].speed_bps, 0) << "FRR's mark of an unknown speed";
  EXPECT_EQ(ports_["swp3"].state, PortState::kDown);
}

TEST_F(PortReaders, OurOwnFormTellsAll) {
  const auto readings = Read("ports", R"({"ports": [
      {"name": "swp1", "state": "up", "rx_bytes": 1, "tx_bytes": "9223372036854775807",
       "speed_bps": 100000000000},
      {"name": "swp2", "state": "down"}, {"name": "swp3"}]})");
  ASSERT_TRUE(readings) << readings.error().message;
  EXPECT_EQ(ports_["swp1"].state, PortState::kUp);
  EXPECT_EQ(ports_["swp1"].rx_bytes, 1U);
  EXPECT_EQ(ports_["swp1"].tx_bytes, 9'223'372'036'854'775'807U);
  EXPECT_EQ(ports_["swp1"].speed_bps, 100e9);
  EXPECT_EQ(ports_["swp2"].state, PortState::kDown);
  EXPECT_EQ(ports_["swp3"].state, PortState::kUnknown);
}

TEST_F(PortReaders, RefuseValuesThatCannotBe) {
  for (const std::string_view value :
       {"NaN", "+Inf", "-Inf", "", "x", "1x", "0x1", "1,5", "1e999", "--1"}) {
    const auto readings =
        Read("prometheus", fmt::format("node_network_carrier{{device=\"swp1\"}} 1\n"
                                       "node_network_receive_bytes_total{{device=\"swp1\"}} {}\n",
                                       value));
    ASSERT_TRUE(readings) << value;
    EXPECT_EQ(readings->refused, 1U) << value;
    EXPECT_FALSE(ports_["swp1"].rx_bytes) << value;
  }
  for (const std::string_view value : {"-1", "1e300", "9.3e18"}) {
    const auto readings = Read(
        "prometheus", fmt::format("node_network_receive_bytes_total{{device=\"swp1\"}} {}", value));
    ASSERT_TRUE(readings) << value;
    EXPECT_EQ(readings->refused, 1U) << value;
    EXPECT_FALSE(ports_["swp1"].rx_bytes) << value;
  }
  EXPECT_EQ(Read("frr", R"({"swp1": {"operationalStatus": "upside down"}, "swp2": 7})")->refused,
            2U);
  EXPECT_EQ(ports_["swp1"].state, PortState::kUnknown);
  EXPECT_EQ(Read("ports", R"({"ports": [{"name": "swp1"}, {"name": "swp2", "state": "flat"},
                                        {"name": "swp1", "state": "down"}]})")
                ->refused,
            2U);
  EXPECT_EQ(ports_["swp1"].state, PortState::kUnknown) << "the first of two counts";
}

TEST_F(PortReaders, AValueThatOccursTwiceIsRefused) {
  const auto readings = Read("prometheus",
                             "node_network_carrier{device=\"swp1\"} 1\n"
                             "node_network_carrier{device=\"swp1\",job=\"x\"} 0\n");
  ASSERT_TRUE(readings);
  EXPECT_EQ(readings->refused, 1U);
  EXPECT_EQ(ports_["swp1"].state, PortState::kUp);
}

TEST_F(PortReaders, RefuseAnswersOfAnotherForm) {
  const std::map<std::string, std::string> wrong = {
      {"", "names no port"},
      {"<html>no such page</html>", "names no port"},
      {"node_network_carrier{device=\"swp1\" 1\n", "names no port"},
      {"node_network_carrier{device=\"swp1\\", "names no port"},
      {"node_network_carrier{\n", "names no port"},
      {"node_network_carrier{a=\"b\"} 1\n", "names no port"},
      {"node_network_carrier 1\n", "names no port"},
  };
  for (const auto& [text, error] : wrong)
    EXPECT_THAT(ErrorOf("prometheus", text), HasSubstr(error)) << text;
  EXPECT_THAT(ErrorOf("frr", "[]"), HasSubstr("not an object"));
  EXPECT_THAT(ErrorOf("frr", "{}"), HasSubstr("names no port"));
  EXPECT_THAT(ErrorOf("frr", std::string(100, '[')), HasSubstr("answer:1:"));
  EXPECT_THAT(ErrorOf("frr", "{\"swp1\": {}, \"swp1\": {}}"), HasSubstr("swp1"));
  EXPECT_THAT(ErrorOf("ports", "{}"), HasSubstr("ports"));
  EXPECT_THAT(ErrorOf("ports", "{\"ports\": [{\"name\": \"swp1\", \"x\": 1}]}"), HasSubstr("x"));
  EXPECT_THAT(ErrorOf("ports", "{\"ports\": [{\"name\": \"swp1\", \"rx_bytes\": -1}]}"),
              HasSubstr("rx_bytes"));
  for (const PortReader& reader : telemetry::PortReaders()) {
    EXPECT_THAT(ErrorOf(reader.name, std::string(PortReader::kMostBytes + 1, ' ')),
                HasSubstr("more than 4194304 bytes"))
        << reader.name;
  }
}

TEST_F(PortReaders, MessagesHaveNoControlCharacters) {
  for (const std::string_view text :
       {"{\"a\\u001b[2Jb\": 1, \"a\\u001b[2Jb\": 2}", "{\"ports\": [{\"\\u0007\\n\": 1}]}"}) {
    const std::string error = ErrorOf("ports", text);
    EXPECT_FALSE(error.empty());
    for (const char c : error) EXPECT_TRUE(c >= ' ' && c <= '~') << error;
  }
  EXPECT_EQ(Printable("a\"b\\c\x1b\n\xc3\xa4"), "a?b?c????");
  EXPECT_EQ(Printable("abcdef", 3), "abc...");
}

TEST_F(PortReaders, StrangePortsAreBoundedAndKnownOnesAreNot) {
  std::string text;
  for (int i = 0; i < 3'000; ++i) {
    text += fmt::format("node_network_carrier{{device=\"veth{}\"}} 1\n", i);
  }
  text += fmt::format("node_network_carrier{{device=\"{}\"}} 1\n", std::string(1'000, 'x'));
  for (int i = 0; i < 2'000; ++i) {
    text += fmt::format("node_network_carrier{{device=\"swp{}\"}} 1\n", i);
  }
  const auto readings = Read("prometheus", text);
  ASSERT_TRUE(readings);
  EXPECT_EQ(readings->ports.size(), 2'000 + PortLimit::kMostOthers);
  EXPECT_EQ(readings->left_out, 3'001 - PortLimit::kMostOthers);
}

}  // namespace
}  // namespace espalier::telemetry
