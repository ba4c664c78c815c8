#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <string>

#include "common/files/json.h"
#include "deploy/cli/job/job_advise.h"
#include "deploy/cli/setup/topology_commands.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::order {
namespace {

using cli::Outcome;
using testing::HasSubstr;

class JobAdvise : public testing::Test {
 protected:
  static Outcome Run(const std::string& arguments) {
    return cli::RunCommand(
        [](CLI::App& app, int& exit_code) {
          cli::AddTopologyCommands(app, exit_code);
          AddJobAdvise(*app.add_subcommand("job"), exit_code);
        },
        arguments);
  }
  // Advises on ranks in a fabric that `topology make` makes.
  Outcome Advise(const std::string& fabric, const std::string& ranks,
                 const std::string& more = "") const {
    const Outcome made = Run("topology make " + fabric + " -o " + Path("net.json"));
    EXPECT_EQ(made.code, 0) << made.errors;
    std::ofstream(Path("ranks.json")) << ranks;
    return Run("job advise " + Path("ranks.json") + " --topology " + Path("net.json") + " " + more);
  }
  std::string Path(const std::string& name) const { return temporary_.path() + "/" + name; }

 private:
  TemporaryFolder temporary_;
};

TEST_F(JobAdvise, SortsARingByLeavesAndPods) {
  // A fat tree of 16 hosts: two hosts a leaf, two leaves a pod.
  const Outcome advice =
      Advise("fat-tree --k 4", R"(["h0", "h4", "h1", "h5", "h2", "h6"])", "--bytes 1200 --json");
  ASSERT_EQ(advice.code, 0) << advice.errors;
  const auto json = io::ParseJson(advice.output, "output");
  ASSERT_TRUE(json) << advice.output;
  EXPECT_TRUE(json->Find("optimal")->boolean);
  const auto& levels = json->Find("levels")->items;
  ASSERT_EQ(levels.size(), 3U);
  const auto number = [&](std::size_t level, const char* key) {
    return std::stod(levels[level].Find(key)->text);
  };
  EXPECT_EQ(levels[1].Find("level")->text, "leaf");
  EXPECT_EQ(levels[2].Find("level")->text, "pod");
  // An edge of the ring carries 2 (P - 1) / P of the data: 2,000 bytes.
  EXPECT_DOUBLE_EQ(number(1, "present_bytes"), 6 * 2000);
  EXPECT_DOUBLE_EQ(number(1, "best_bytes"), 4 * 2000);
  EXPECT_DOUBLE_EQ(number(1, "least_bytes"), 4 * 2000);
  EXPECT_DOUBLE_EQ(number(2, "present_bytes"), 6 * 2000);
  EXPECT_DOUBLE_EQ(number(2, "best_bytes"), 2 * 2000);
  EXPECT_EQ(json->Find("order")->items.size(), 6U);
}

TEST_F(JobAdvise, ShowsATableAndKeepsAGoodOrder) {
  const Outcome kept =
      Advise("leaf-spine --spines 2 --leaves 2 --hosts-per-leaf 2", R"(["h0", "h1", "h2", "h3"])");
  EXPECT_EQ(kept.code, 0) << kept.errors;
  EXPECT_THAT(kept.output, HasSubstr("keep this order (proved to be optimal)"));
  const Outcome better =
      Advise("leaf-spine --spines 2 --leaves 2 --hosts-per-leaf 2", R"(["h0", "h2", "h1", "h3"])");
  EXPECT_THAT(better.output, HasSubstr("better order: (proved to be optimal)"));
  EXPECT_THAT(better.output, HasSubstr("leaf"));
}

TEST_F(JobAdvise, FindsTheLeafOfAGpuByItsNic) {
  const Outcome advice = Advise("a100 --boxes 2", R"(["box0/gpu0", "box1/gpu0", "box0/gpu1"])");
  EXPECT_EQ(advice.code, 0) << advice.errors;
  EXPECT_THAT(advice.output, HasSubstr("host"));
}

TEST_F(JobAdvise, RefusesBadInput) {
  const std::string fabric = "leaf-spine --spines 2 --leaves 2 --hosts-per-leaf 2";
  const struct {
    std::string ranks, more, message;
  } cases[] = {
      {R"(["h0", "h9"])", "", "h9: there is no such node"},
      {R"(["h0", "spine0"])", "", "spine0: its NIC is not clear"},
      {R"(["h0", "h0"])", "", "ranks.json:1:8: this node is listed twice"},
      {R"(["h0", 5])", "", "ranks.json:1:8: not the name of a node"},
      {R"(["h0"])", "", "2 to 4096 ranks are needed"},
      {R"({"h0": 1})", "", "2 to 4096 ranks are needed"},
      {R"(["h0")", "", "ranks.json:1:"},
      {R"(["h0", "h1"])", "--algorithm magic", "there is no algorithm \"magic\""},
      {R"(["h0", "h1"])", "--algorithm allreduce-hierarchical --ranks-per-node 3", "3"},
  };
  for (const auto& one : cases) {
    const Outcome refused = Advise(fabric, one.ranks, one.more);
    EXPECT_EQ(refused.code, 2) << one.ranks;
    EXPECT_THAT(refused.errors, HasSubstr(one.message)) << one.ranks;
  }
}

}  // namespace
}  // namespace espalier::order
