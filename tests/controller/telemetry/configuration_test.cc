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

TEST_F(TelemetryConfiguration, ExampleFileShowsTheDefaults) {
  const ExampleFile example("telemetry.conf");
  const Result<Configuration> config = Read(kLeaf);
  ASSERT_TRUE(config) << config.error().message;
  const std::map<std::string, std::string> defaults = {
      {"controller", Quoted(config->feed.controller)},
      {"listen", Quoted(config->listen)},
      {"max_age_seconds", fmt::format("{}", config->feed.max_age / 1s)},
      {"most_flows", fmt::format("{}", config->most_flows)},
      {"receive_buffer_bytes", fmt::format("{}", config->receive_buffer_bytes)},
      {"http", Quoted(config->http)},
      {"log_level", config->log_level == LogLevel::kInfo ? "\"info\"" : "another"},
  };
  EXPECT_EQ(example.Compare(defaults, {"topology_file", "token_file", "ca_file", "exporter", "port",
                                       "insecure_http"}),
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

TEST_F(TelemetryConfiguration, RefusesWhatCannotBeMeant) {
  const std::map<std::string, std::string> refused = {
      {"", "exporter is missing (add exporter: "},
      {"exporter: \"leaf0\"", "SWITCH AGENT"},
      {"exporter: \"h0 10.0.0.1\"", "no switch \"h0\""},
      {"exporter: \"leaf9 10.0.0.1\"", "no switch \"leaf9\""},
      {"exporter: \"leaf0 10.0.0\"", "10.0.0"},
      {std::string(kLeaf) + "exporter: \"leaf1 10.254.0.1\"", "must have its own"},
      {std::string(kLeaf) + "exporter: \"leaf0 10.254.0.2\"", "must have its own"},
      {std::string(kLeaf) + "port: \"leaf0 0 leaf0--spine0\"", "SWITCH NUMBER LINK"},
      {std::string(kLeaf) + "port: \"leaf0 4294967296 leaf0--spine0\"", "SWITCH NUMBER LINK"},
      {std::string(kLeaf) + "port: \"leaf0 1x leaf0--spine0\"", "SWITCH NUMBER LINK"},
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
