// Numbers of job names, and when they are forgotten.
#include "controller/state/flows/job_names.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/seeds.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kHost = 3;

std::string Name(std::size_t number) { return "job" + std::to_string(number); }

TEST(JobNames, TheJobWithoutANameIsAlwaysNumberZero) {
  JobNames jobs;
  EXPECT_EQ(jobs.Intern("", kHost), 0U);
  jobs.Begin(0);
  jobs.End(0);
  for (std::size_t i = 0; i < 200; ++i) jobs.Intern(Name(i), kHost);
  jobs.TakeForgotten();
  EXPECT_EQ(jobs.At(0), "");
  EXPECT_EQ(jobs.All()[0], "");
}

TEST(JobNames, ANameKeepsItsNumberAndWhoNamedItFirst) {
  JobNames jobs;
  const std::uint32_t number = jobs.Intern("a", kHost);
  EXPECT_EQ(jobs.Intern("a", kHost + 1), number);
  EXPECT_EQ(jobs.NamedBy(number), kHost);
  EXPECT_EQ(*jobs.Shared(number), "a");
  EXPECT_NE(jobs.Intern("b", kHost), number);
  EXPECT_EQ(jobs.size(), 3U);
}

TEST(JobNames, ForgetsTheLongestIdleOfTheSameHostBeyond64) {
  JobNames jobs;
  const std::uint32_t others = jobs.Intern("another host's", kHost + 1);
  const std::uint32_t first = jobs.Intern(Name(0), kHost);
  for (std::size_t i = 1; i < JobNames::kMaxIdle; ++i) jobs.Intern(Name(i), kHost);
  EXPECT_TRUE(jobs.TakeForgotten().empty());
  jobs.Intern(Name(64), kHost);
  EXPECT_EQ(jobs.TakeForgotten(), std::vector{first});
  EXPECT_EQ(jobs.Intern("another host's", kHost + 1), others);
}

TEST(JobNames, AJobWithOpenFlowsIsNotForgotten) {
  JobNames jobs;
  const std::uint32_t busy = jobs.Intern("busy", kHost);
  jobs.Begin(busy);
  jobs.Begin(busy);
  jobs.End(busy);
  for (std::size_t i = 0; i < 200; ++i) jobs.Intern(Name(i), kHost);
  EXPECT_EQ(jobs.Intern("busy", kHost), busy);
  jobs.End(busy);  // the last one to become idle
  jobs.TakeForgotten();
  for (std::size_t i = 200; i < 200 + JobNames::kMaxIdle - 1; ++i) jobs.Intern(Name(i), kHost);
  EXPECT_EQ(jobs.Intern("busy", kHost), busy);
  jobs.Intern("one more", kHost);
  EXPECT_EQ(jobs.TakeForgotten().back(), busy);
}

// Users of a number can drop what they keep under it first.
TEST(JobNames, ANumberIsReusedOnlyAfterItWasTakenAsForgotten) {
  JobNames jobs;
  const std::uint32_t first = jobs.Intern(Name(0), kHost);
  const auto name = jobs.Shared(first);
  for (std::size_t i = 1; i <= JobNames::kMaxIdle; ++i) jobs.Intern(Name(i), kHost);
  EXPECT_EQ(jobs.At(first), Name(0));  // until it is taken
  EXPECT_NE(jobs.Intern(Name(0), kHost + 1), first);
  ASSERT_EQ(jobs.TakeForgotten(), std::vector{first});
  EXPECT_EQ(jobs.At(first), "");
  EXPECT_EQ(jobs.Intern("new", kHost), first);
  EXPECT_EQ(jobs.At(first), "new");
  EXPECT_EQ(*name, Name(0));  // its holder keeps it
}

// A model made of lists: open jobs, and idle jobs by host, longest idle first.
TEST(JobNames, AgreesWithAModelUnderRandomUse) {
  for (const std::uint64_t seed : SeedsToTry(1, 4)) {
    SCOPED_TRACE("ESPALIER_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    JobNames jobs;
    std::map<std::string, std::uint32_t> numbers;
    std::map<std::string, int> open;
    std::map<std::size_t, std::vector<std::string>> idle;
    const auto forget_if_many = [&](std::size_t host) {
      if (idle[host].size() <= JobNames::kMaxIdle) return;
      numbers.erase(idle[host].front());
      idle[host].erase(idle[host].begin());
    };
    for (int step = 0; step < 4'000; ++step) {
      const std::size_t host = random() % 2;
      const std::string name = std::to_string(host) + Name(random() % 100);
      const std::uint32_t number = jobs.Intern(name, host);
      if (numbers.contains(name)) {
        ASSERT_EQ(numbers.at(name), number) << name;
      } else {
        numbers[name] = number;
        idle[host].push_back(name);
        forget_if_many(host);
      }
      if (random() % 2 == 0) {
        jobs.Begin(number);
        if (open[name]++ == 0) std::erase(idle[host], name);
      } else if (open[name] > 0) {
        jobs.End(number);
        if (--open[name] == 0) idle[host].push_back(name);
        forget_if_many(host);
      }
      if (random() % 8 == 0) jobs.TakeForgotten();
      std::set<std::uint32_t> used;
      for (const auto& [known, its] : numbers) ASSERT_TRUE(used.insert(its).second) << known;
      ASSERT_EQ(jobs.At(number), name);
    }
  }
}

}  // namespace
}  // namespace espalier::controller
