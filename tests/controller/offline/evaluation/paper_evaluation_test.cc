#include "controller/offline/evaluation/paper_evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace espalier::offline {
namespace {

using testing::HasSubstr;

class PaperEvaluationTest : public testing::Test {
 protected:
  std::string MakeFolder(const std::string& name) {
    std::string path = folder_.path() + "/" + name;
    std::filesystem::create_directories(path);
    return path;
  }
  TemporaryFolder folder_;
};

TEST_F(PaperEvaluationTest, FindsScenariosByNumber) {
  MakeFolder("concurrent_jobs_2/ring_size_8");
  MakeFolder("concurrent_jobs_10/ring_size_2");
  MakeFolder("concurrent_jobs_2/ring_size_16");
  MakeFolder("concurrent_jobs_2/ring_size_");
  MakeFolder("concurrent_jobs_2/ring_size_4x");
  MakeFolder("concurrent_jobs_x/ring_size_4");
  MakeFolder("jobs_3/ring_size_4");
  std::vector<std::string> found;
  for (const PaperScenario& scenario : FindPaperScenarios(folder_.path())) {
    const std::string name = "concurrent_jobs_" + std::to_string(scenario.concurrent_jobs) +
                             "/ring_size_" + std::to_string(scenario.ring_size);
    EXPECT_EQ(scenario.folder, folder_.path() + "/" + name);
    found.push_back(name);
  }
  EXPECT_EQ(found, (std::vector<std::string>{"concurrent_jobs_2/ring_size_8",
                                             "concurrent_jobs_2/ring_size_16",
                                             "concurrent_jobs_10/ring_size_2"}));
  EXPECT_TRUE(FindPaperScenarios(folder_.path() + "/none").empty());
}

TEST_F(PaperEvaluationTest, DrawsScenariosOfMoreJobsThanArePublished) {
  std::vector<std::string> drawn;
  const std::vector<PaperScenario> published = {{1, 8, "a"}, {3, 2, "b"}};
  for (const PaperScenario& scenario : ListDrawnScenarios(published, 5)) {
    EXPECT_EQ(scenario.folder, "");
    drawn.push_back(std::to_string(scenario.concurrent_jobs) + "x" +
                    std::to_string(scenario.ring_size));
  }
  EXPECT_EQ(drawn, (std::vector<std::string>{"4x2", "4x4", "4x8", "5x2", "5x4", "5x8"}));
  EXPECT_TRUE(ListDrawnScenarios(published, 3).empty());
}

TEST_F(PaperEvaluationTest, BuildsTheFabricOfThePaper) {
  const auto topology = BuildPaperFabric();
  ASSERT_TRUE(topology.has_value());
  int hosts = 0;
  int leaves = 0;
  int spines = 0;
  for (const fabric::Node& node : topology->nodes()) {
    hosts += node.kind == fabric::NodeKind::kCompute ? 1 : 0;
    leaves += node.role == fabric::SwitchRole::kLeaf ? 1 : 0;
    spines += node.role == fabric::SwitchRole::kSpine ? 1 : 0;
  }
  EXPECT_EQ(hosts, 2'048);
  EXPECT_EQ(leaves, 64);
  EXPECT_EQ(spines, 32);
  EXPECT_EQ(topology->links().size(), 2'048U + 64U * 32U);
  for (const fabric::Link& link : topology->links()) {
    ASSERT_EQ(link.rate, BitsPerSecond{100'000'000'000});
  }
}

TEST_F(PaperEvaluationTest, WritesNothingWithoutScenariosOrWhenCancelled) {
  const std::string output = folder_.path() + "/output";
  const auto none =
      EvaluatePaper({.jobs = MakeFolder("none"), .output = output}, [] { return false; });
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("concurrent_jobs_J/ring_size_R"));
  const std::string jobs = MakeFolder("some");
  const std::string ring = MakeFolder("some/concurrent_jobs_1/ring_size_2");
  // Hosts 96 and 128 are h0 and h32, the first ones of ToRs 0 and 1.
  std::ofstream(ring + "/job_0-M.txt") << "96 128 0 1 0 1000 0 0\n128 96 1 0 0 1000 0 0\n";
  const auto cancelled = EvaluatePaper({.jobs = jobs, .output = output}, [] { return true; });
  ASSERT_FALSE(cancelled.has_value());
  EXPECT_EQ(cancelled.error().code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST_F(PaperEvaluationTest, NamesTheJobFileThatIsWrong) {
  const std::string ring = MakeFolder("concurrent_jobs_1/ring_size_2");
  std::ofstream(ring + "/job_0-M.txt") << "96 128 0 7 0 1000 0 0\n";
  const auto refused = EvaluatePaper({.jobs = folder_.path(), .output = folder_.path() + "/output"},
                                     [] { return false; });
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("job_0-M.txt:1:"));
}

// The program that draws is missing, fails, or is there.
TEST_F(PaperEvaluationTest, SaysHowToDrawTheFiguresLater) {
  const auto drawn = DrawFigures(folder_.path());
  ASSERT_FALSE(drawn.has_value());  // there are no results
  EXPECT_EQ(drawn.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(drawn.error().message, HasSubstr("to draw them later: espalier-figures " +
                                               folder_.path() + "/evaluation.json"));
}

}  // namespace
}  // namespace espalier::offline
