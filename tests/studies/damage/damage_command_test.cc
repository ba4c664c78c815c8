#include "tests/studies/damage/damage_command.h"

#include <gtest/gtest.h>

#include <string>

#include "common/fabric/builders.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/topology_file.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::offline {
namespace {

using cli::Outcome;
using cli::RunCommand;

class SimulateDamage : public testing::Test {
 protected:
  // On four leaves with as many hosts and spines.
  Outcome Run(const std::string& options) const {
    const auto topology = fabric::Topology::Build(
        *fabric::BuildLeafSpine({.spines = 4, .leaves = 4, .hosts_per_leaf = 4}));
    return RunOn(*topology, options);
  }
  Outcome RunOn(const fabric::Topology& topology, const std::string& options) const {
    const std::string path = temporary_.path() + "/fabric.json";
    EXPECT_TRUE(io::WriteFileDurably(path, io::FormatTopology(topology.Spec())));
    return RunCommand(AddDamageOptions, "--topology " + path + " " + options);
  }

  TemporaryFolder temporary_;
};

double Number(const io::JsonValue& object, const char* key) {
  const io::JsonValue* const value = object.Find(key);
  EXPECT_NE(value, nullptr) << key;
  return value == nullptr ? -1 : std::stod(value->text);
}

TEST_F(SimulateDamage, PrintsEveryFieldAndTheSameForTheSameSeed) {
  const std::string options = "--sets 1,4 --seed 3 --json";
  const Outcome outcome = Run(options);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  EXPECT_EQ(outcome.output, Run(options).output);
  const auto json = io::ParseJson(outcome.output, "output");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(Number(*json, "seed"), 3);
  EXPECT_EQ(Number(*json, "hosts_after_ms"), 60);
  ASSERT_EQ(json->Find("known")->items.size(), 8U);  // traffic, damage, set
  const io::JsonValue& known = json->Find("known")->items[0];
  EXPECT_EQ(known.Find("traffic")->text, "permutation");
  EXPECT_EQ(known.Find("damage")->text, "dead");
  EXPECT_EQ(Number(known, "hosts"), 16);
  EXPECT_EQ(Number(known, "paths"), 1);
  EXPECT_NEAR(Number(known, "bound"), 4.0 / 3, 1e-9);
  EXPECT_NEAR(Number(known, "slowest_equal_shares"), 2, 1e-6);
  EXPECT_NEAR(Number(known, "slowest_by_progress"), 2, 1e-6);
  EXPECT_NEAR(Number(json->Find("known")->items[1], "slowest_weights"), 4.0 / 3, 0.01);
  ASSERT_EQ(json->Find("failure")->items.size(), 4U);  // set, dealing
  const io::JsonValue& failure = json->Find("failure")->items[3];
  EXPECT_EQ(failure.Find("dealing")->text, "progress");
  ASSERT_EQ(failure.Find("reactions")->items.size(), 5U);
  EXPECT_EQ(failure.Find("reactions")->items[0].Find("reaction")->text, "nobody");
  ASSERT_EQ(json->Find("loads")->items.size(), 2U);
  const io::JsonValue& loads = json->Find("loads")->items[1];
  EXPECT_LE(Number(*loads.Find("link_failures"), "load"), Number(loads, "promised") + 1e-6);
  EXPECT_EQ(Number(*loads.Find("spine_failures"), "failures"), 4);
}

TEST_F(SimulateDamage, PrintsTables) {
  const Outcome outcome = Run("--sets 1");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* text : {"BY_PROGRESS", "HOSTS_ALONE", "PROMISED", "never (2 flows)", "half rate",
                           "permutation", "rings"}) {
    EXPECT_NE(outcome.output.find(text), std::string::npos) << text;
  }
}

TEST_F(SimulateDamage, RunsOnlyWhatIsAskedFor) {
  const Outcome outcome = Run("--sets 1 --only loads --link leaf3--spine2");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("PROMISED"), std::string::npos);
  EXPECT_EQ(outcome.output.find("BY_PROGRESS"), std::string::npos);
  EXPECT_EQ(outcome.output.find("HOSTS_ALONE"), std::string::npos);
}

TEST_F(SimulateDamage, TellsSetsThatTheFabricHasOnce) {
  const Outcome outcome = Run("--sets 2,4,8,16 --jobs 1 --json");
  const auto json = io::ParseJson(outcome.output, "output");
  ASSERT_TRUE(json);
  const auto& loads = json->Find("loads")->items;
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_EQ(Number(loads[0], "paths"), 2);
  EXPECT_EQ(Number(loads[1], "paths"), 4);
}

TEST_F(SimulateDamage, MakesFabricsOfHosts) {
  const Outcome outcome = RunCommand(AddDamageOptions, "--hosts 32,48 --sets 1 --only known");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("\n32 "), std::string::npos);
  EXPECT_NE(outcome.output.find("\n48 "), std::string::npos);
}

TEST_F(SimulateDamage, TellsBadInput) {
  for (const char* options : {"--sets 0", "--sets 17", "--sets x", "--hosts 64", "--link nothing",
                              "--link h0--leaf0", "--only everything", "--seconds 0",
                              "--hosts-after-ms -1", "--seed -1", "--jobs 0", "--wrong"}) {
    const Outcome outcome = Run(options);
    EXPECT_EQ(outcome.code, 2) << options;
    EXPECT_EQ(outcome.output, "") << options;
    EXPECT_NE(outcome.errors, "") << options;
  }
  const Outcome few = RunCommand(AddDamageOptions, "--hosts 33");
  EXPECT_EQ(few.code, 2);
  EXPECT_NE(few.errors.find("--hosts: 33"), std::string::npos);
  EXPECT_NE(RunCommand(AddDamageOptions, "--topology /nowhere").code, 0);
  // More rings than fit.
  EXPECT_NE(Run("--jobs 9").code, 0);
  const Outcome help = RunCommand(AddDamageOptions, "--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.output.find("Examples:"), std::string::npos);
}

}  // namespace
}  // namespace espalier::offline
