#include "controller/daemon/configuration.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "controller/intents/policy.h"
#include "controller/settings/settings.h"
#include "tests/example_file.h"
#include "tests/temporary_folder.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class ConfigurationTest : public testing::Test {
 protected:
  Result<Configuration> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadConfiguration(path_);
  }
  std::string ErrorOf(const std::string& text) {
    const auto config = Read(text);
    return config ? "no error" : config.error().message;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/controller.conf";
};

TEST_F(ConfigurationTest, HasDefaultsForAllButTheTopology) {
  const auto config = Read("topology_file: \"t.json\"  # the fabric\n");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->listen, "tcp://127.0.0.1:7400");
  EXPECT_EQ(config->http,
            std::vector<std::string>{"unix:/run/espalier-controller/controller.sock"});
  EXPECT_EQ(config->options.heartbeat.interval, 1s);
  EXPECT_EQ(config->options.lease, 10min);
  EXPECT_TRUE(config->options.fabric_hashes_protocol);
  EXPECT_EQ(config->options.algorithm, Algorithm::kOptimal);
  EXPECT_EQ(config->options.moves_per_start, 8U);
  EXPECT_EQ(config->options.moved_bytes_per_start, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(config->options.limit_rates, RateLimits::kAutomatic);
  EXPECT_EQ(config->options.shares, Shares::kExact);
  EXPECT_TRUE(config->options.plan_ahead);
}

TEST_F(ConfigurationTest, HasLimitsForAgentsAndDetection) {
  const auto config = Read("topology_file: \"t.json\"\n");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->options.agent_limits.messages_per_second, 5'000);
  EXPECT_EQ(config->options.agent_limits.entries_per_second, 1'200'000);
  EXPECT_EQ(config->options.detection.max_links, 8U);
  EXPECT_EQ(config->options.detection.budget_window, 60s);
  const auto other = Read(
      "topology_file: \"t.json\" max_messages_per_second: 7 max_entries_per_second: 9\n"
      "detection_max_links: 0 detection_max_tier_percent: 10 detection_window_seconds: 5\n"
      "max_reports_per_second: 3\n");
  ASSERT_TRUE(other.has_value()) << other.error().message;
  EXPECT_EQ(other->options.agent_limits.messages_per_second, 7);
  EXPECT_EQ(other->options.agent_limits.entries_per_second, 9);
  EXPECT_EQ(other->options.detection.max_links, 0U);
  EXPECT_EQ(other->options.detection.max_tier_fraction, 0.1);
  EXPECT_EQ(other->options.detection.budget_window, 5s);
  EXPECT_EQ(other->options.max_reports_per_second, 3U);
  EXPECT_FALSE(io::NeedRestart(config->fields, other->fields).empty());
  const auto none = Read("topology_file: \"t.json\" history_bytes: 0\n");
  ASSERT_TRUE(none.has_value()) << none.error().message;
  EXPECT_EQ(config->history_bytes, 64U << 20);
  EXPECT_EQ(none->history_bytes, 0U);
  EXPECT_EQ(io::NeedRestart(config->fields, none->fields),
            std::vector<std::string>{"history_bytes"});
}

TEST_F(ConfigurationTest, ReadsAllFields) {
  const auto config = Read(
      "topology_file: \"t.json\" http: \"127.0.0.1:1\" http: \"unix:/x\" heartbeat_ms: 250\n"
      "hash_ignores_protocol: true log_level: \"error\" max_probes_per_second: 10\n"
      "algorithm: \"greedy\" moves_per_start: 0 moved_bytes_per_start: 9 limit_rates: true\n"
      "plan_ahead: false shares: \"equal\"\n");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->http.size(), 2U);
  EXPECT_EQ(config->options.heartbeat.interval, 250ms);
  EXPECT_FALSE(config->options.fabric_hashes_protocol);
  EXPECT_EQ(config->log_level, LogLevel::kError);
  EXPECT_EQ(config->options.learner.max_probes_per_second, 10U);
  EXPECT_EQ(config->options.algorithm, Algorithm::kGreedy);
  EXPECT_EQ(config->options.moves_per_start, 0U);
  EXPECT_EQ(config->options.moved_bytes_per_start, 9);
  EXPECT_EQ(config->options.limit_rates, RateLimits::kOn);
  EXPECT_EQ(config->options.shares, Shares::kEqual);
  EXPECT_FALSE(config->options.plan_ahead);
}

// The default of each field, as the file would write it.
std::map<std::string, std::string> DefaultsOf(const Configuration& config) {
  const ControllerOptions& options = config.options;
  const auto text = [](auto number) { return fmt::format("{}", number); };
  return {
      {"listen", Quoted(config.listen)},
      {"state_file", Quoted(config.state_file)},
      {"audit_days", text(config.audit_days)},
      {"audit_moves", text(config.audit_moves)},
      {"history_bytes", text(config.history_bytes)},
      {"key_folder", Quoted(config.key_folder)},
      {"insecure_plaintext", Written(config.insecure_plaintext)},
      {"http", Quoted(config.http.at(0))},
      {"log_level", config.log_level == LogLevel::kInfo ? "\"info\"" : "another"},
      {"max_messages_per_second", text(options.agent_limits.messages_per_second)},
      {"max_bytes_per_second", text(options.agent_limits.bytes_per_second)},
      {"max_entries_per_second", text(options.agent_limits.entries_per_second)},
      {"max_reports_per_second", text(options.max_reports_per_second)},
      {"detection_max_links", text(options.detection.max_links)},
      {"detection_max_tier_percent", text(options.detection.max_tier_fraction * 100)},
      {"detection_window_seconds", text(options.detection.budget_window / 1s)},
      {"link_test_probes_per_second", text(options.link_tests.probes_per_second)},
      {"full_queue_us", text(options.link_tests.full_queue / 1us)},
      {"link_test_udp_dscp", text(options.link_tests.udp_dscp)},
      {"link_test_tcp_dscp", text(options.link_tests.tcp_dscp)},
      {"balance_splits", Written(options.balance_splits)},
      {"mode", Quoted(options.observes ? "observe" : "steer")},
      {"activity", options.activity == Activity::kBursts ? "\"bursts\"" : "another"},
      {"algorithm", Quoted(FormatPolicy(options.algorithm))},
      {"shares", Quoted(FormatPolicy(options.shares))},
      {"moves_per_start", text(options.moves_per_start)},
      {"plan_ahead", Written(options.plan_ahead)},
      {"confirm_moves_above", text(options.confirm_moves_above)},
      {"lease_seconds", text(options.lease / 1s)},
      {"verify_interval_ms", text(options.verification.interval / 1ms)},
      {"verify_all_within_seconds", text(options.verification.within / 1s)},
      {"verify_probes_per_second", text(options.verification.probes_per_second)},
      {"heartbeat_ms", text(options.heartbeat.interval / 1ms)},
      {"missed_heartbeats", text(options.heartbeat.missed)},
      {"max_probes_per_second", text(options.learner.max_probes_per_second)},
      {"hash_ignores_protocol", Written(!options.fabric_hashes_protocol)},
      {"hash_uses_qpn", Written(options.fabric_hashes_qpn)},
  };
}

// moves_per_start was once said to be 4 where it was 8, and plan_ahead was missing.
TEST_F(ConfigurationTest, ExampleFileShowsTheDefaults) {
  const ExampleFile example("controller.conf");
  const auto config = Read(example.text());
  ASSERT_TRUE(config.has_value()) << config.error().message;
  // KeepsPlainHttpOffTheNetwork tests the default of insecure_http.
  EXPECT_EQ(
      example.Compare(DefaultsOf(*config), {"tls_certificate_file", "tls_key_file", "limit_rates",
                                            "moved_bytes_per_start", "insecure_http"}),
      "");
  EXPECT_TRUE(config->http_options.tls_certificate_file.empty());
  EXPECT_EQ(config->http.size(), 1U);
  for (const auto& [name, value] : example.shown()) {
    if (name.starts_with("tls_")) continue;  // they go together
    EXPECT_TRUE(Read("topology_file: \"t.json\" " + name + ": " + value)) << name;
  }
}

TEST_F(ConfigurationTest, KeepsPlainHttpOffTheNetwork) {
  const std::string topology = "topology_file: \"t.json\" ";
  for (const std::string& address : {std::string("unix:/run/x.sock"), std::string("127.0.0.1:9180"),
                                     std::string("[::1]:9180"), std::string("localhost:9180")}) {
    EXPECT_TRUE(Read(topology + "http: \"" + address + "\"")) << address;
  }
  for (const std::string& address : {std::string("0.0.0.0:9180"), std::string("10.0.0.1:9180"),
                                     std::string("[::]:9180"), std::string("ctl:9180")}) {
    const std::string http = topology + "http: \"" + address + "\"";
    EXPECT_NE(ErrorOf(http).find("insecure_http"), std::string::npos) << address;
    EXPECT_TRUE(Read(http + " insecure_http: true"));
    EXPECT_TRUE(Read(http + " tls_certificate_file: \"a\" tls_key_file: \"b\""));
  }
  EXPECT_NE(ErrorOf(topology + "tls_certificate_file: \"a\"").find("must be set together"),
            std::string::npos);
}

// A value of the option other than its default; empty: the test has none.
std::string OtherValue(const std::string& name, const std::string& value) {
  if (name == "algorithm") return "\"greedy\"";
  if (name == "shares") return "\"equal\"";
  if (name == "mode") return "\"observe\"";
  if (value == "true" || value == "false") return value == "true" ? "false" : "true";
  return value.starts_with('"') ? "" : "5";
}

// Activity and the pace of link tests once changed in the file, and no reload said anything.
TEST_F(ConfigurationTest, AppliesAReloadOrNamesWhatNeedsARestart) {
  const std::string least = "topology_file: \"t.json\" ";
  const auto running = Read(least);
  ASSERT_TRUE(running) << running.error().message;
  const std::map<std::string, std::string> before = DefaultsOf(*running);
  int applied = 0;
  for (const io::OptionInForce& field : running->fields) {
    const auto shown = before.find(field.name);
    const std::string other = shown == before.end() ? "" : OtherValue(field.name, shown->second);
    if (other.empty()) continue;
    const auto read = Read(least + field.name + ": " + other);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(DefaultsOf(*read).at(field.name), other);
    EXPECT_EQ(io::NeedRestart(running->fields, read->fields).empty(), field.can_reload);
    if (!field.can_reload) continue;
    Settings settings(running->options);
    settings.Reload(read->options);
    settings.Apply({});
    Configuration reloaded = *running;
    reloaded.options = settings.now();
    EXPECT_EQ(DefaultsOf(reloaded).at(field.name), other) << field.name;
    ++applied;
  }
  EXPECT_EQ(applied, 14);
}

TEST_F(ConfigurationTest, NamesThePlaceOfAnError) {
  EXPECT_NE(ErrorOf("topology_file: \"t.json\"\nlisten_on: \"x\"\n").find(path_ + ":2:"),
            std::string::npos);
  EXPECT_NE(ErrorOf("topology_file: \"t.json\"\nheartbeat_ms: -1\n").find(path_ + ":2:"),
            std::string::npos);
  EXPECT_NE(ErrorOf("topology_file: \"t.json").find(path_ + ":1:"), std::string::npos);
  EXPECT_NE(ErrorOf("").find("topology_file is missing"), std::string::npos);
  EXPECT_NE(ErrorOf("topology_file: \"t\" log_level: \"loud\"").find("log_level"),
            std::string::npos);
  EXPECT_NE(
      ErrorOf("topology_file: \"t\" activity: \"some\"").find("give \"bursts\" or \"connections\""),
      std::string::npos);
  EXPECT_NE(ErrorOf("topology_file: \"t\" mode: \"watch\"").find("give \"steer\" or \"observe\""),
            std::string::npos);
  EXPECT_NE(ErrorOf("topology_file: \"t\" shares: \"thirds\"").find("\"exact\" or \"equal\""),
            std::string::npos);
  EXPECT_NE(ErrorOf("topology_file: \"t\" link_test_udp_dscp: 64").find("64 is not in 0..63"),
            std::string::npos);
  EXPECT_NE(ErrorOf("topology_file: \"t\" link_test_probes_per_second: 1001").find("0..1000"),
            std::string::npos);
  EXPECT_NE(ErrorOf("topology_file: \"t\" algorithm: \"best\"").find("\"optimal\" or \"greedy\""),
            std::string::npos);
  EXPECT_EQ(ReadConfiguration(folder_.path() + "/missing").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace espalier::controller
