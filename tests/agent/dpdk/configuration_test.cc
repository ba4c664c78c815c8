#include "agent/dpdk/configuration.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/example_file.h"
#include "tests/temporary_folder.h"

namespace espalier::dpdk {
namespace {

// Returns the default of each field in the syntax of the file.
std::map<std::string, std::string> DefaultsOf(const Configuration& config) {
  using namespace std::chrono_literals;
  const auto text = [](auto number) { return fmt::format("{}", number); };
  return {
      {"mtu", text(config.datapath.mtu)},
      {"idle_sleep_us", text(config.datapath.idle_sleep / 1us)},
      {"agent_socket", Quoted(config.control.agent_socket)},
      {"http", Quoted(config.http)},
      {"log_level", config.log_level == LogLevel::kInfo ? "\"info\"" : "another"},
      {"max_flows", text(config.datapath.max_flows)},
      {"idle_flow_seconds", text(config.control.idle_flow / 1s)},
      {"offload", config.offloads ? "ICRC_CORRECTED_BY_DEVICE" : "SOFTWARE"},
      {"offload_group", text(config.offload_group)},
  };
}

TEST(DpdkExampleFile, ShowsTheDefaults) {
  const ExampleFile example("dpdk.conf");
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/dpdk.conf";
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return ReadConfiguration(path);
  };
  const Result<Configuration> config = read(example.text());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(example.Compare(DefaultsOf(*config), {"insecure_http"}), "");
  EXPECT_EQ(config->eal.front(), "-l");
  for (const auto& [name, value] : example.shown()) {
    EXPECT_TRUE(read("host_port: \"a\" fabric_port: \"b\" " + name + ": " + value)) << name;
  }
  const std::string open = "host_port: \"a\" fabric_port: \"b\" http: \"0.0.0.0:9182\" ";
  EXPECT_FALSE(read(open));
  EXPECT_TRUE(read(open + "insecure_http: true"));
}

}  // namespace
}  // namespace espalier::dpdk
