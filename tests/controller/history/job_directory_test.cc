#include "controller/history/job_directory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

TEST(JobDirectory, ANameKeepsItsNumber) {
  JobDirectory jobs;
  const std::uint32_t train = jobs.Intern("train");
  EXPECT_NE(jobs.Intern(""), train);
  EXPECT_EQ(jobs.Intern("train"), train);
  EXPECT_EQ(jobs.Find("train"), train);
  EXPECT_EQ(jobs.Find("other"), std::nullopt);
  ASSERT_NE(jobs.NameOf(train), nullptr);
  EXPECT_EQ(*jobs.NameOf(train), "train");
}

// A host that invents names displaces what was used longest ago, and no number means two jobs.
TEST(JobDirectory, ForgetsTheNameThatWasUsedLongestAgo) {
  JobDirectory jobs;
  const std::uint32_t old = jobs.Intern("old");
  const std::uint32_t used = jobs.Intern("used");
  for (std::size_t i = 0; i < 3 * JobDirectory::kMostNames; ++i) {
    jobs.Intern(fmt::format("invented {}", i));
    EXPECT_EQ(jobs.Intern("used"), used);
    EXPECT_LE(jobs.size(), JobDirectory::kMostNames);
  }
  EXPECT_EQ(jobs.NameOf(old), nullptr);
  EXPECT_EQ(jobs.Find("old"), std::nullopt);
  EXPECT_NE(jobs.Intern("old"), old);
}

}  // namespace
}  // namespace espalier::controller
