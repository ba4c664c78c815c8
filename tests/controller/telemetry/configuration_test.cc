#include "controller/telemetry/daemon/configuration.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "common/fabric/builders.h"
#include "common/files/topology_file.h"
#include "tests/example_file.h"
#include "tests/temporary_folder.h"

namespace espalier::telemetry {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class TelemetryConfiguration : public testing::Test {
 protected:
  TelemetryConfiguration() {
    std::ofstream(folder_.path() + "/topology.json")
        << io::FormatTopology(*fabric::BuildLeafSpine({}));
  }
  Result<Configuration> Read(const std::string& text) const {
    const std::string path = folder_.path() + "/telemetry.conf";
    std::ofstream(path) << fmt::format("topology_file: \"{}/topology.json\"\n{}", folder_.path(),
                                       text);
    return ReadConfiguration(path);
  }
  std::string ErrorOf(const std::string& text) const {
    const Result<Configuration> config = Read(text);
    return config ? "" : config.error().message;
  }

  const TemporaryFolder folder_;
};

constexpr const char* kLeaf = "exporter: \"leaf0 10.254.0.1\"\n";
constexpr const char* kPoll = "poll: \"leaf0 frr vtysh\"\n";

TEST_F(TelemetryConfiguration, ExampleFileShowsTheDefaults) {
  const ExampleFile example("telemetry.conf");
  const Result<Configuration> config = Read(kLeaf);
  ASSERT_TRUE(config) << config.error().message;
  const std::map<std::string, std::string> defaults = {
      {"controller", Quoted(config->feed.controller)},
      {"listen", Quoted(config->listen)},
      {"poll_seconds", fmt::format("{}", config->polling.interval / 1s)},
      {"poll_counters_seconds", fmt::format("{}", config->polling.counters_interval / 1s)},
      {"max_age_seconds", fmt::format("{}", config->feed.max_age / 1s)},
      {"most_flows", fmt::format("{}", config->most_flows)},
      {"receive_buffer_bytes", fmt::format("{}", config->receive_buffer_bytes)},
      {"http", Quoted(config->http)},
      {"log_level", config->log_level == LogLevel::kInfo ? "\"info\"" : "another"},
  };
  EXPECT_EQ(example.Compare(defaults, {"topology_file", "token_file", "ca_file", "exporter", "poll",
                                       "port", "insecure_http"}),
            "");
}

TEST_F(TelemetryConfiguration, ReadsSwitchesAndPorts) {
  const Result<Configuration> config = Read(R"(
      exporter: "leaf0 10.254.0.1" exporter: "spine1 fd00::1 10.9.9.9"
      port: "leaf0 1000 leaf0--spine1" port: "spine1 2 leaf3--spine1")");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->exporters.size(), 2U);
  const Exporter& spine = config->exporters[1];
  EXPECT_EQ(spine.agent.ToString(), "fd00::1");
  EXPECT_EQ(spine.source.ToString(), "10.9.9.9");
  ASSERT_EQ(spine.ports.size(), 1U);
  EXPECT_EQ(spine.ports[0].index, 2U);
  EXPECT_EQ(config->topology.DirectionName(spine.ports[0].out), "leaf3--spine1>leaf3");
  EXPECT_EQ(config->exporters[0].source, config->exporters[0].agent);
}

TEST_F(TelemetryConfiguration, ReadsPolls) {
  const Result<Configuration> config = Read(R"(
      poll: "leaf0 prometheus http://10.0.0.1:9100/metrics"
      poll: "leaf0 frr ssh leaf0 \"vtysh -c 'show interface json'\""
      port: "leaf0 swp7 leaf0--spine1" poll_seconds: 9)");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->exporters.empty());
  EXPECT_EQ(config->feed.source, "telemetry");
  EXPECT_EQ(config->polling.counters_interval, 9s) << "no less than that of polls";
  ASSERT_EQ(config->polls.size(), 2U);
  EXPECT_EQ(config->polls[0].target.address, "http://10.0.0.1:9100");
  EXPECT_EQ(config->polls[1].target.argv.back(), "vtysh -c 'show interface json'");
  for (const Poll& poll : config->polls) {
    ASSERT_EQ(poll.ports.size(), 1U);
    EXPECT_EQ(poll.ports[0].name, "swp7");
    EXPECT_EQ(config->topology.DirectionName(poll.ports[0].out), "leaf0--spine1>spine1");
  }
}

TEST_F(TelemetryConfiguration, RefusesWhatCannotBeMeant) {
  const std::map<std::string, std::string> refused = {
      {"", "exporter: it is missing, and poll, too (add exporter: "},
      {"exporter: \"leaf0\"", "SWITCH AGENT"},
      {"exporter: \"h0 10.0.0.1\"", "no switch \"h0\""},
      {"exporter: \"leaf9 10.0.0.1\"", "no switch \"leaf9\""},
      {"exporter: \"leaf0 10.0.0\"", "10.0.0"},
      {std::string(kLeaf) + "exporter: \"leaf1 10.254.0.1\"", "must have its own"},
      {std::string(kLeaf) + "exporter: \"leaf0 10.254.0.2\"", "must have its own"},
      {std::string(kLeaf) + "port: \"leaf0 leaf0--spine0\"", "SWITCH PORT LINK"},
      {std::string(kPoll) + "port: \"leaf0 1 leaf0--spine0\"", "leaf0 is no exporter (list"},
      {std::string(kPoll) + "port: \"leaf1 swp1 leaf1--spine0\"", "and has no poll"},
      {std::string(kPoll) + "port: \"leaf0 swp1 leaf0--spine0\" port: \"leaf0 swp1 leaf0--spine1\"",
       "occurs twice"},
      {"poll: \"leaf0 frr\"", "SWITCH READER TARGET"},
      {"poll: \"leaf9 frr vtysh\"", "no switch \"leaf9\""},
      {"poll: \"leaf0 snmp vtysh\"", "no reader \"snmp\" (use one of prometheus, frr, ports)"},
      {"poll: \"leaf0 prometheus http://10.0.0.1\"", "http://HOST:PORT/PATH"},
      {"poll: \"leaf0 frr vtysh -c 'show\"", "not closed"},
      {std::string(kPoll) + "poll_seconds: 61", "is not in 1..60"},
      {std::string(kLeaf) + "port: \"leaf1 1 leaf1--spine0\"", "leaf1 is no exporter"},
      {std::string(kLeaf) + "port: \"leaf0 1 leaf1--spine0\"", "no such link"},
      {std::string(kLeaf) + "port: \"leaf0 1 leaf0--spine0\" port: \"leaf0 1 leaf0--spine1\"",
       "occurs twice"},
      {std::string(kLeaf) + "port: \"leaf0 1 leaf0--spine0\" port: \"leaf0 2 leaf0--spine0\"",
       "occurs twice"},
      {std::string(kLeaf) + "listen: \"unix:/run/x\"", "UDP"},
      {std::string(kLeaf) + "max_age_seconds: 3601", "is not in 1..3600"},
      {std::string(kLeaf) + "most_flows: 99999999", "is not in 1..16777216"},
      {std::string(kLeaf) + "http: \"0.0.0.0:9184\"", "insecure_http: true"},
      {std::string(kLeaf) + "log_level: \"loud\"", "log_level"},
      {std::string(kLeaf) + "token_file: \"/nowhere/token\"", "/nowhere/token"},
  };
  for (const auto& [text, error] : refused) EXPECT_THAT(ErrorOf(text), HasSubstr(error)) << text;
}

TEST_F(TelemetryConfiguration, ReadsTheTokenIfNobodyElseCan) {
  const std::string path = folder_.path() + "/token";
  std::ofstream(path) << "secret\n";
  chmod(path.c_str(), 0644);
  const std::string text = fmt::format("{}token_file: \"{}\"", kLeaf, path);
  EXPECT_THAT(ErrorOf(text), HasSubstr("chmod"));
  chmod(path.c_str(), 0600);
  const Result<Configuration> config = Read(text);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->feed.access.headers.at(0).second, "Bearer secret");
}

}  // namespace
}  // namespace espalier::telemetry
