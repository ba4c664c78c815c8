// Tests the commands for steering, maintenance windows and topologies, and what must be confirmed.
#include <fstream>

#include "common/files/json.h"
#include "common/files/topology_file.h"
#include "deploy/cli/operator/apply_command.h"
#include "tests/deploy/cli/operator/operator_commands_fixture.h"

namespace espalier::cli {
namespace {

using RolloutCommands = OperatorCommandsTest;

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_F(RolloutCommands, SwitchSteeringAndTellWhatHolds) {
  EXPECT_TRUE(Has(Run({"steering"}).out, "steering is on\n"));
  const Outcome dry = Run({"steering", "off", "--dry-run"});
  EXPECT_TRUE(Has(dry.out, "would move 1 flow")) << dry.out << dry.err;
  const Outcome off = Run({"steering", "off", "--reason", "storm", "--until", "2h"});
  EXPECT_EQ(off.exit_code, 0) << off.err;
  EXPECT_TRUE(Has(off.out, "added: steering all (value off")) << off.out;
  const Outcome shown = Run({"steering"});
  EXPECT_TRUE(Has(shown.out, "steering is off: every flow takes plain ECMP")) << shown.out;
  EXPECT_TRUE(Has(shown.out, "0 of 4 hosts are steered; 1 of 1 flows stay on plain ECMP"));
  EXPECT_TRUE(Has(shown.out, "storm"));
  EXPECT_TRUE(Has(Run({"status"}).out, "steering is off"));
  EXPECT_TRUE(Has(Run({"flows"}).out, "UNSTEERED"));
  const Outcome again = Run({"steering", "off", "--json"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_TRUE(Has(again.out, "already exists")) << again.out;
  const Outcome narrow = Run({"steering", "on", "--host", "h0,h1"});
  EXPECT_EQ(narrow.exit_code, 1);
  EXPECT_TRUE(Has(narrow.err, "espalier steering on --percent 0")) << narrow.err;
  EXPECT_EQ(Run({"steering", "on"}).exit_code, 0);
  EXPECT_EQ(Run({"steering", "on", "--percent", "101"}).exit_code, 2);
  EXPECT_EQ(Run({"steering", "off", "--host", "nosuch"}).exit_code, 1);
  EXPECT_EQ(Run({"steering", "off", "--host", "h0,h1", "--job", "A"}).exit_code, 0);
  const auto json = io::ParseJson(Run({"steering", "--json"}).out, "steering");
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ(json->Find("settings")->items.size(), 3U);
  EXPECT_EQ(json->Find("hosts_steered")->text, "2");
}

TEST_F(RolloutCommands, AddListAndCancelMaintenance) {
  EXPECT_TRUE(Has(Run({"maintenance"}).out, "no maintenance windows"));
  const Outcome dry =
      Run({"maintenance", "add", "node", "spine0", "--from", "1h", "--until", "2h", "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_EQ(
      Run({"maintenance", "add", "node", "spine0", "--from", "1h", "--until", "2h"}).exit_code, 0);
  const Outcome active =
      Run({"maintenance", "add", "link", "leaf0--spine1", "--until", "2h", "--reason", "optics"});
  EXPECT_EQ(active.exit_code, 0) << active.err;
  const Outcome list = Run({"maintenance"});
  EXPECT_TRUE(Has(list.out, "WAITING") && Has(list.out, "ACTIVE")) << list.out;
  EXPECT_TRUE(Has(Run({"links", "--link", "leaf0--spine1"}).out, "maintenance m2"));
  EXPECT_EQ(Run({"maintenance", "cancel", "m2"}).exit_code, 0);
  EXPECT_EQ(Run({"maintenance", "cancel", "m2"}).exit_code, 1);
  EXPECT_EQ(Run({"maintenance", "add", "link", "leaf0--spine1"}).exit_code, 2) << "no end";
  EXPECT_EQ(Run({"maintenance", "add", "link", "nosuch", "--until", "2h"}).exit_code, 1);
  EXPECT_EQ(Run({"maintenance", "add", "node", "spine0", "--until", "soon"}).exit_code, 2);
  // One that would cut off flows asks when it is added.
  const Outcome refused = Run({"maintenance", "add", "node", "leaf0", "--until", "2h"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(Has(refused.err, "this would cut off 1 flow")) << refused.err;
  EXPECT_EQ(Run({"maintenance", "add", "node", "leaf0", "--until", "2h", "--force"}).exit_code, 0);
}

TEST_F(RolloutCommands, ApplyATopologyOnlyWhereTheDaemonKeepsIt) {
  const std::string file = folder_.path() + "/t.json";
  fabric::TopologySpec spec = cluster_.state().topology.Spec();
  spec.links.back().rate.value *= 2;
  std::ofstream(file) << io::FormatTopology(spec);
  int exit_code = -1;
  const auto apply = [&](std::vector<std::string> arguments) {
    CLI::App app;
    AddTopologyApply(app, exit_code);
    arguments.insert(arguments.begin(), {"apply", file});
    arguments.insert(arguments.end(), {"--controller", address_});
    std::reverse(arguments.begin(), arguments.end());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    app.parse(arguments);
    std::fflush(stdout);
    return testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  };
  const std::string refused = apply({"--dry-run"});
  EXPECT_EQ(exit_code, 1);
  EXPECT_TRUE(Has(refused, "does not take over topologies while it runs")) << refused;
  std::ofstream(file) << "{";
  EXPECT_TRUE(Has(apply({}), "t.json:1:"));
  EXPECT_EQ(exit_code, 2);
}

}  // namespace
}  // namespace espalier::cli
