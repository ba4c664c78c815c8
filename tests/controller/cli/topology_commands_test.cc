#include "controller/cli/topology_commands.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "common/io/json.h"
#include "common/io/topology_file.h"
#include "tests/temporary_folder.h"

namespace espalier::cli {
namespace {

struct Outcome {
  int code = 0;
  std::string output;
  std::string errors;
};

Outcome RunCommand(const std::string& arguments) {
  CLI::App app;
  Outcome outcome;
  AddTopologyCommands(app, outcome.code);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError&) {
    outcome.code = 2;
  }
  outcome.output = testing::internal::GetCapturedStdout();
  outcome.errors = testing::internal::GetCapturedStderr();
  return outcome;
}

class TopologyCommands : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

TEST_F(TopologyCommands, PrintsAFileThatReadsBack) {
  const Outcome made = RunCommand(
      "topology make leaf-spine --spines 2 --leaves 3 --hosts-per-leaf 4 --host-gbps 0.05 "
      "--fabric-gbps 12.5");
  EXPECT_EQ(made.code, 0);
  EXPECT_EQ(made.errors, "");
  const auto topology = io::ParseTopology(made.output, "made");
  ASSERT_TRUE(topology.has_value()) << topology.error().message;
  EXPECT_EQ(topology->nodes().size(), 12U + 3 + 2);
  EXPECT_EQ(topology->link(*topology->FindLink("h0--leaf0")).rate.value, 50'000'000);
  EXPECT_EQ(topology->link(*topology->FindLink("leaf0--spine0")).rate.value, 12'500'000'000);
}

TEST_F(TopologyCommands, WritesEveryKindToAFileThatChecks) {
  for (const char* kind :
       {"leaf-spine --spines 4 --leaves 4 --hosts-per-leaf 4", "fat-tree --k 4",
        "rails --boxes 2 --rails 4 --spines 2 --nvlink-gbps 1000", "a100 --boxes 2",
        "h100 --boxes 2", "mi250 --boxes 2", "mi250-half --boxes 2",
        "ring --nodes 5 --directed --gbps 0.5", "torus --dims 2x3x4", "hypercube --dimension 4"}) {
    const std::string file = Path("fabric.json");
    const Outcome made = RunCommand(std::string("topology make ") + kind + " -o " + file);
    EXPECT_EQ(made.code, 0) << made.errors;
    EXPECT_EQ(made.output, "");
    const Outcome checked = RunCommand("topology check " + file);
    EXPECT_EQ(checked.code, 0) << checked.errors;
    EXPECT_NE(checked.output.find("a good topology"), std::string::npos);
  }
}

TEST_F(TopologyCommands, RefusesGridsThatCannotBeBuilt) {
  for (const char* kind : {"torus --dims 4x1", "hypercube --dimension 2x2",
                           "hypercube --dimension 40", "ring --nodes 4 --gbps -1"}) {
    EXPECT_EQ(RunCommand(std::string("topology make ") + kind).code, 2) << kind;
  }
}

TEST_F(TopologyCommands, ChecksAsOneJsonObject) {
  auto spec =
      io::ParseTopology(
          RunCommand("topology make leaf-spine --spines 2 --leaves 2 --hosts-per-leaf 1").output,
          "made")
          ->Spec();
  spec.links[0].state = fabric::LinkState::kDown;  // h0 is cut off
  spec.links[2].state = fabric::LinkState::kDrained;
  ASSERT_TRUE(io::WriteFileDurably(Path("f.json"), io::FormatTopology(spec)).has_value());
  const Outcome checked = RunCommand("topology check --json " + Path("f.json"));
  ASSERT_EQ(checked.code, 0) << checked.errors;
  const auto json = io::ParseJson(checked.output, "output");
  ASSERT_TRUE(json.has_value()) << json.error().message;
  const std::pair<const char*, const char*> expected[] = {
      {"name", "leaf-spine-2x2x1"},
      {"version", "1"},
      {"nodes", "6"},
      {"compute", "2"},
      {"nics", "0"},
      {"switches", "4"},
      {"endpoints", "2"},
      {"links", "6"},
      {"unattached_endpoints", "0"},
      {"links_up", "4"},
      {"links_down", "1"},
      {"links_drained", "1"},
      {"parts", "2"},
  };
  for (const auto& [key, value] : expected) {
    ASSERT_NE(json->Find(key), nullptr) << key;
    EXPECT_EQ(json->Find(key)->text, value) << key;
  }
}

TEST_F(TopologyCommands, TellsBadInputFromFailure) {
  ASSERT_TRUE(io::WriteFileDurably(Path("bad.json"), "{\n \"nodes\": 1}").has_value());
  const Outcome bad = RunCommand("topology check " + Path("bad.json"));
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.output, "");
  EXPECT_TRUE(bad.errors.starts_with("espalier: " + Path("bad.json") + ":2:11: ")) << bad.errors;
  EXPECT_EQ(RunCommand("topology check " + Path("none.json")).code, 2);
  EXPECT_EQ(RunCommand("topology check").code, 2);
  EXPECT_EQ(RunCommand("topology").code, 2);
  EXPECT_EQ(RunCommand("topology make ring").code, 2);
  EXPECT_EQ(RunCommand("topology make fat-tree --k 3").code, 2);
  EXPECT_EQ(RunCommand("topology make leaf-spine --spines 4 --leaves 4").code, 2);
  EXPECT_EQ(RunCommand("topology make rails --boxes 0").code, 2);
  const Outcome rate = RunCommand("topology make fat-tree --k 4 --host-gbps fast");
  EXPECT_EQ(rate.code, 2);
  EXPECT_TRUE(rate.errors.starts_with("espalier: --host-gbps: bandwidth")) << rate.errors;
  EXPECT_EQ(RunCommand("topology make fat-tree --k 4 -o " + Path("no/such/folder")).code, 1);
}

}  // namespace
}  // namespace espalier::cli
