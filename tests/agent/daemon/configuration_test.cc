#include "agent/daemon/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/local/espalier_agent.h"
#include "common/identity/key_folder.h"
#include "tests/example_file.h"
#include "tests/temporary_folder.h"

namespace espalier::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class ConfigurationTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  Result<Configuration> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadConfiguration(path_);
  }
  std::string ErrorOf(const std::string& text) {
    const Result<Configuration> read = Read(text);
    EXPECT_FALSE(read) << text;
    if (read) return "";
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    return read.error().message;
  }

  std::string path_ = ::testing::TempDir() + "/agent-" + std::to_string(getpid()) + ".cfg";
};

TEST_F(ConfigurationTest, EmptyFileMeansTheDefaults) {
  const Result<Configuration> config = Read("# nothing\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->options.name.empty());
  EXPECT_EQ(config->controller, "tcp://127.0.0.1:7400");
  EXPECT_EQ(config->local_socket, ESPALIER_AGENT_DEFAULT_SOCKET);
  EXPECT_EQ(config->options.lease, std::chrono::minutes(10));
  EXPECT_EQ(config->options.meter.elephant_bytes, 1u << 20);
  EXPECT_TRUE(config->probing);
}

// Returns the default of each field in the syntax of the file.
std::map<std::string, std::string> DefaultsOf(const Configuration& config) {
  using namespace std::chrono_literals;
  const AgentOptions& options = config.options;
  const auto text = [](auto number) { return fmt::format("{}", number); };
  return {
      {"key_file", Quoted(config.key_file)},
      {"controller_keys_file", Quoted(config.controller_keys_file)},
      {"insecure_plaintext", Written(config.insecure_plaintext)},
      {"local_socket", Quoted(config.local_socket)},
      {"http", Quoted(config.http)},
      {"log_level", config.log_level == LogLevel::kInfo ? "\"info\"" : "another"},
      {"elephant_bytes", text(options.meter.elephant_bytes)},
      {"report_interval_ms", text(options.reporter.progress_interval / 1ms)},
      {"group_queue_pairs", Written(config.group_queue_pairs)},
      {"idle_after_ms", text(options.meter.edges.idle_after / 1ms)},
      {"lease_seconds", text(options.lease / 1s)},
      {"dead_after_ms", text(options.guard.dead_after / 1ms)},
      {"standby_after_ms", text(options.guard.standby_after / 1ms)},
      {"local_reroute_interval_ms", text(options.guard.local_reroute_interval / 1ms)},
      {"no_probing", Written(!config.probing)},
      {"probe_ttl", text(int{options.guard.probe_ttl})},
      {"max_probe_ttl", text(int{options.prober.max_ttl})},
      {"max_probes_per_second", text(options.prober.max_probes_per_second)},
      {"probe_port", text(options.guard.probe_ports.at(0))},
      {"fabric_hashes_qpn", Written(options.guard.fabric_hashes_qpn)},
  };
}

TEST_F(ConfigurationTest, ExampleFileShowsTheDefaults) {
  const ExampleFile example("agent.conf");
  const Result<Configuration> config = Read(example.text());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->controller, Read("")->controller);
  // MetricsAreForThisHostUnlessToldOtherwise tests insecure_http; a user may not be on this host.
  EXPECT_EQ(example.Compare(DefaultsOf(*config), {"name", "nic", "insecure_http", "engine_user"}),
            "");
  for (const auto& [name, value] : example.shown()) {
    if (name == "engine_user") continue;
    EXPECT_TRUE(Read(name + ": " + value)) << name;
  }
}

TEST_F(ConfigurationTest, MetricsAreForThisHostUnlessToldOtherwise) {
  for (const char* address : {"0.0.0.0:9181", "[::]:9181", "10.0.0.1:9181"}) {
    const std::string line = fmt::format("http: \"{}\"\n", address);
    const Result<Configuration> refused = Read(line);
    ASSERT_FALSE(refused) << address;
    EXPECT_NE(refused.error().message.find("insecure_http: true"), std::string::npos);
    EXPECT_TRUE(Read(line + "insecure_http: true\n"));
  }
  for (const char* address : {"127.0.0.2:9181", "[::1]:9181", "localhost:9181", "unix:/run/h"}) {
    EXPECT_TRUE(Read(fmt::format("http: \"{}\"\n", address))) << address;
  }
}

TEST_F(ConfigurationTest, EveryFieldIsTaken) {
  const Result<Configuration> config = Read(R"(
      name: "h3" controller: "ipc:///run/c" local_socket: "/run/a" nic: "eth0" nic: "10.0.0.1"
      http: "unix:/run/h" log_level: "debug" elephant_bytes: 5 report_interval_ms: 20
      idle_after_ms: 15
      lease_seconds: 30 dead_after_ms: 40 standby_after_ms: 20 local_reroute_interval_ms: 50 probe_ttl: 5
      max_probes_per_second: 60 no_probing: true max_probe_ttl: 7 probe_port: 4791 probe_port: 4792
      fabric_hashes_qpn: true)");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->options.name, "h3");
  EXPECT_EQ(config->controller, "ipc:///run/c");
  EXPECT_EQ(config->local_socket, "/run/a");
  EXPECT_THAT(config->nics, ElementsAre("eth0", "10.0.0.1"));
  EXPECT_EQ(config->http, "unix:/run/h");
  EXPECT_EQ(config->log_level, LogLevel::kDebug);
  EXPECT_EQ(config->options.meter.elephant_bytes, 5u);
  EXPECT_EQ(config->options.reporter.progress_interval, std::chrono::milliseconds(20));
  EXPECT_EQ(config->options.meter.edges.idle_after, std::chrono::milliseconds(15));
  EXPECT_EQ(config->options.lease, std::chrono::seconds(30));
  EXPECT_EQ(config->options.guard.dead_after, std::chrono::milliseconds(40));
  EXPECT_EQ(config->options.guard.standby_after, std::chrono::milliseconds(20));
  EXPECT_EQ(config->options.guard.local_reroute_interval, std::chrono::milliseconds(50));
  EXPECT_EQ(config->options.guard.probe_ttl, 5);
  EXPECT_EQ(config->options.prober.max_probes_per_second, 60u);
  EXPECT_EQ(config->options.prober.max_ttl, 7);
  EXPECT_THAT(config->options.guard.probe_ports, ElementsAre(4791, 4792));
  EXPECT_TRUE(config->options.guard.fabric_hashes_qpn);
  EXPECT_FALSE(config->probing);
}

TEST_F(ConfigurationTest, ErrorsNameTheirPlace) {
  EXPECT_THAT(ErrorOf("name: \"a\"\n  foo: 1\n"), HasSubstr(path_ + ":2:6: "));
  EXPECT_THAT(ErrorOf("lease_seconds: -1"), HasSubstr(path_ + ":1:"));
  EXPECT_THAT(ErrorOf("name: \"a b\""),
              HasSubstr("name: must be 1 to 255 visible ASCII characters without spaces"));
  EXPECT_THAT(ErrorOf("name: \"" + std::string(256, 'x') + "\""), HasSubstr("name: "));
  EXPECT_THAT(ErrorOf("probe_ttl: 256"), EndsWith("probe_ttl: 256 is not in 1..255"));
  EXPECT_THAT(ErrorOf("log_level: \"loud\""), HasSubstr("log_level: "));
  EXPECT_EQ(ReadConfiguration("/no/such/file").error().code, ErrorCode::kNotFound);
}

TEST_F(ConfigurationTest, TakesTheKeyOfItsOwnNameOnly) {
  TemporaryFolder folder;
  const WallTime now = SystemWallTime();
  {
    identity::KeyFolder keys = identity::KeyFolder::Open(folder.path()).value();
    ASSERT_TRUE(keys.MakeController(now));
    ASSERT_TRUE(keys.MakeAgents({"h0", "h1"}, now));
  }
  const auto config_of = [&](const std::string& name) {
    return Read("name: \"" + name + "\" key_file: \"" + folder.path() +
                "/agents/h0.key\" controller_keys_file: \"" + folder.path() + "/controller.pub\"")
        .value();
  };
  const auto keys = ReadKeys(config_of("h0"));
  ASSERT_TRUE(keys && *keys) << keys.error().message;
  EXPECT_EQ((*keys)->server_public_keys.size(), 1U);
  EXPECT_THAT(ReadKeys(config_of("h1")).error().message, HasSubstr("is the key of h0"));
  const auto missing = ReadKeys(Read("name: \"h0\" key_file: \"/nowhere/k\"").value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("espalier keys make"));
  const auto none = ReadKeys(Read("insecure_plaintext: true").value());
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
}

}  // namespace
}  // namespace espalier::agent
