#include "agent/engine/configuration.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/example_file.h"
#include "tests/temporary_folder.h"

namespace espalier::engine {
namespace {

// Returns the default of each field in the syntax of the file.
std::map<std::string, std::string> DefaultsOf(const Configuration& config) {
  const runtime::OffloadOptions& limits = config.offload;
  const auto text = [](auto number) { return fmt::format("{}", number); };
  const auto mebibytes = [](std::size_t bytes) { return fmt::format("{}", bytes >> 20); };
  return {
      {"socket", Quoted(config.socket)},
      {"agent_socket", Quoted(config.agent_socket)},
      {"http", Quoted(config.http)},
      {"log_level", config.log_level == LogLevel::kInfo ? "\"info\"" : "another"},
      {"max_sessions", text(limits.max_sessions)},
      {"max_sessions_per_user", text(limits.max_sessions_per_user)},
      {"max_shared_mib_per_session", mebibytes(limits.max_shared_bytes_per_session)},
      {"max_shared_mib_per_user", mebibytes(limits.max_shared_bytes_per_user)},
      {"max_shared_mib", mebibytes(limits.max_shared_bytes)},
      {"max_memory_mib_per_session", mebibytes(limits.max_memory_per_session)},
      {"max_memory_mib_per_user", mebibytes(limits.max_memory_per_user)},
      {"max_memory_mib", mebibytes(limits.max_memory)},
  };
}

TEST(EngineConfiguration, ExampleFileShowsTheDefaults) {
  const ExampleFile example("engine.conf");
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/engine.conf";
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return ReadConfiguration(path);
  };
  const Result<Configuration> config = read(example.text());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(example.Compare(DefaultsOf(*config),
                            {"collective_costs", "user", "network", "insecure_http"}),
            "");
  EXPECT_TRUE(config->offload.costs_file.empty());
  EXPECT_TRUE(config->user.empty());
  EXPECT_TRUE(config->offload.networks.empty());
  for (const auto& [name, value] : example.shown()) {
    EXPECT_TRUE(read(name + ": " + value)) << name;
  }
  EXPECT_FALSE(read("http: \"0.0.0.0:9183\""));
  EXPECT_TRUE(read("http: \"0.0.0.0:9183\" insecure_http: true"));
}

}  // namespace
}  // namespace espalier::engine
