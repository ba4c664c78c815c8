// Groups that get their plans from an agent: with its rank plan server, but no controller.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/client/collective.h"
#include "collective/program/program_bytes.h"
#include "tests/collective/client/local_agent.h"
#include "tests/temporary_folder.h"

namespace espalier {
namespace {

// The local ports of open connections of this machine.
std::set<std::uint16_t> OpenPorts() {
  std::set<std::uint16_t> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  while (std::getline(table, line)) {
    unsigned port = 0;
    unsigned state = 0;
    if (std::sscanf(line.c_str(), " %*d: %*8x:%4x %*8x:%*4x %2x", &port, &state) != 2) continue;
    if (state == 1) ports.insert(static_cast<std::uint16_t>(port));
  }
  return ports;
}

class JobTest : public testing::Test {
 protected:
  using Body = std::function<void(Collective&, int rank)>;

  espalier_comm_options Options(std::uint32_t timeout_ms = 20'000) const {
    return {.medium = ESPALIER_TCP, .timeout_ms = timeout_ms, .agent = socket_.c_str()};
  }
  // Runs all ranks; returns the error of each, "" for none.
  std::vector<std::string> Run(const espalier_comm_options& options, const std::string& store,
                               const Body& body, int ranks = kRanks) {
    std::vector<std::string> failures(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          Collective group(store, kJob, rank, ranks, options);
          body(group, rank);
        } catch (const CollectiveError& error) {
          failures[static_cast<std::size_t>(rank)] =
              fmt::format("{} {}", error.code(), error.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failures;
  }
  static void CheckSum(Collective& group, int rank, int ranks = kRanks) {
    std::vector<float> mine(1'000, static_cast<float>(rank + 1));
    std::vector<float> sum(mine.size());
    group.AllReduce(mine.data(), sum.data(), sum.size());
    const int sum_of_ranks = ranks * (ranks + 1) / 2;
    EXPECT_EQ(sum, std::vector<float>(mine.size(), static_cast<float>(sum_of_ranks)));
  }
  // The number of a ring's connections from the ports of a plan.
  static int ConnectionsOf(int plan) {
    const auto open = OpenPorts();
    int count = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      count += static_cast<int>(open.count(SourcePort(plan, rank, (rank + 1) % kRanks)));
    }
    return count;
  }
  static void ExpectAll(const std::vector<std::string>& failures, const std::string& part) {
    for (const std::string& failure : failures) {
      EXPECT_NE(failure.find(part), std::string::npos) << failure;
    }
  }

  TemporaryFolder folder_;
  const std::string socket_ = folder_.path() + "/agent.sock";
};

TEST_F(JobTest, RanksJoinThroughTheirAgentAndTakeItsPlansBetweenTwoCalls) {
  LocalAgent agent(socket_);
  agent.Give(MakePlans(0, RingBytes(kRanks)));
  const auto failures = Run(Options(), "", [&](Collective& group, int rank) {
    CheckSum(group, rank);
    EXPECT_EQ(ConnectionsOf(0), kRanks);
    group.Barrier();
    if (rank == 0) agent.Give(MakePlans(1, RingBytes(kRanks)));
    // Ranks check the connections at different times, so they agree on the call in which to stop.
    for (bool is_new = false; !is_new;) {
      CheckSum(group, rank);
      std::int32_t mine = ConnectionsOf(1) == kRanks ? 1 : 0;
      std::int32_t all = 0;
      group.AllReduce(&mine, &all, 1, ESPALIER_MIN);
      is_new = all == 1;
    }
    CheckSum(group, rank);
    EXPECT_EQ(ConnectionsOf(0), 0);
    group.Barrier();
  });
  EXPECT_EQ(failures, std::vector<std::string>(kRanks));
  EXPECT_GT(agent.reports(), 0);
}

// Calls with unequal parts bypass the plan, posted or not, and are reported to the agent.
TEST_F(JobTest, UnequalPartsWorkInAJob) {
  LocalAgent agent(socket_);
  agent.Give(MakePlans(0, RingBytes(kRanks)));
  const std::vector<std::size_t> counts = {2, 0, 3};
  const auto failures = Run(Options(), "", [&](Collective& group, int rank) {
    const std::size_t own = counts[static_cast<std::size_t>(rank)];
    const std::vector<float> part(own + 1, static_cast<float>(rank + 1));
    std::vector<float> all(5);
    for (const bool posted : {false, true}) {
      std::fill(all.begin(), all.end(), -1.0F);
      if (posted) group.Wait(group.PostAllGatherV(part.data(), all.data(), counts));
      if (!posted) group.AllGatherV(part.data(), all.data(), counts);
      EXPECT_EQ(all, (std::vector<float>{1, 1, 3, 3, 3}));
      CheckSum(group, rank);
    }
    std::vector<float> sums(own + 1, -1);
    group.ReduceScatterV(all.data(), sums.data(), counts);
    for (std::size_t i = 0; i < own; ++i) EXPECT_EQ(sums[i], rank == 0 ? 3 : 9);
    EXPECT_EQ(sums.back(), -1);
    EXPECT_EQ(ConnectionsOf(0), kRanks);
    group.Barrier();
  });
  EXPECT_EQ(failures, std::vector<std::string>(kRanks));
  EXPECT_GT(agent.reports(), 5);
}

// The same program works without a controller and an agent.
TEST_F(JobTest, WithoutAnAgentRanksFormAPlainGroup) {
  const auto failures = Run(Options(), folder_.path(), [&](Collective& group, int rank) {
    CheckSum(group, rank);
    EXPECT_EQ(ConnectionsOf(0), 0);
    group.Barrier();
  });
  EXPECT_EQ(failures, std::vector<std::string>(kRanks));
}

TEST_F(JobTest, AllRanksFormAPlainGroupIfOneHasNoPlan) {
  LocalAgent agent(socket_);
  auto plans = MakePlans(0, RingBytes(kRanks));
  plans.pop_back();
  agent.Give(plans);
  const auto failures = Run(Options(6'000), folder_.path(), [&](Collective& group, int rank) {
    CheckSum(group, rank);
    EXPECT_EQ(ConnectionsOf(0), 0);
    group.Barrier();
  });
  EXPECT_EQ(failures, std::vector<std::string>(kRanks));
}

TEST_F(JobTest, UsesTheStoreOnlyToAgreeIfAllHavePlans) {
  LocalAgent agent(socket_);
  agent.Give(MakePlans(0, RingBytes(kRanks)));
  const std::string store = "tcp://127.0.0.1:2031";
  const auto failures = Run(Options(), store, [&](Collective& group, int rank) {
    CheckSum(group, rank);
    EXPECT_EQ(ConnectionsOf(0), kRanks);
    group.Barrier();
  });
  EXPECT_EQ(failures, std::vector<std::string>(kRanks));
}

// The plan stays in force, and the ranks continue.
TEST_F(JobTest, AnAgentThatGoesLeavesItsPlan) {
  auto agent = std::make_unique<LocalAgent>(socket_);
  agent->Give(MakePlans(0, RingBytes(kRanks)));
  const auto failures = Run(Options(), "", [&](Collective& group, int rank) {
    CheckSum(group, rank);
    group.Barrier();
    if (rank == 0) agent.reset();
    group.Barrier();
    CheckSum(group, rank);
    EXPECT_EQ(ConnectionsOf(0), kRanks);
    group.Barrier();
  });
  EXPECT_EQ(failures, std::vector<std::string>(kRanks));
}

TEST_F(JobTest, WithoutAnAgentOrAPlanAndWithoutAStoreEveryRankIsToldWhy) {
  const auto never = [](Collective&, int rank) { ADD_FAILURE() << "rank " << rank << " is in"; };
  ExpectAll(Run(Options(), "", never), "is the agent running?");
  LocalAgent agent(socket_);
  ExpectAll(Run(Options(200), "", never), "no plan for rank");
}

TEST_F(JobTest, APlanThatDoesNotFitTheProgramIsToldToEveryRank) {
  const auto never = [](Collective&, int rank) { ADD_FAILURE() << "rank " << rank << " is in"; };
  LocalAgent agent(socket_);
  // The job has more ranks than the program that joins it.
  agent.Give(MakePlans(0, RingBytes(4), 4));
  const std::string other_size = fmt::format("{} job train has 4 ranks in its plan", -EINVAL);
  ExpectAll(Run(Options(), "", never), other_size);
  ExpectAll(Run(Options(), folder_.path(), never), other_size);
  // A rank that the job does not have.
  agent.Give(MakePlans(1, RingBytes(kRanks)));
  ExpectAll({Run(Options(200), "", never, kRanks + 2).back()}, "no plan for rank 4");
  // A program for fewer ranks than the plan, an unreadable one, and an incorrect one.
  agent.Give(MakePlans(2, RingBytes(kRanks - 1)));
  ExpectAll(Run(Options(), "", never), "2 ranks");
  agent.Give(MakePlans(3, "junk"));
  ExpectAll(Run(Options(), "", never), fmt::format("{}", -EPROTO));
  auto wrong = algorithms::MakeAlgorithm("allreduce-ring-chunked", {.ranks = kRanks});
  ASSERT_TRUE(wrong.has_value());
  wrong->ranks[0].blocks[0].steps.pop_back();
  agent.Give(MakePlans(4, program::EncodeProgram(*wrong)));
  ExpectAll(Run(Options(), "", never), "is incorrect");
}

TEST_F(JobTest, RunsByThePartThatEachRankGets) {
  LocalAgent agent(socket_);
  const program::EncodedProgram whole(
      *algorithms::MakeAlgorithm("allreduce-ring-chunked", {.ranks = kRanks}));
  auto plans = MakePlans(0, {});
  for (wire::RankPlan& plan : plans) plan.program = whole.PartOf(plan.rank);
  agent.Give(plans);
  const auto check = [](Collective& group, int rank) { CheckSum(group, rank); };
  EXPECT_EQ(Run(Options(), "", check), std::vector<std::string>(kRanks));
  // The part of another rank.
  plans[1].program = whole.PartOf(2);
  for (wire::RankPlan& plan : plans) ++plan.version;
  agent.Give(plans);
  const auto failures = Run(Options(3'000), "", check);
  EXPECT_NE(failures[1].find("is the part of rank 2"), std::string::npos) << failures[1];
  for (const std::string& failure : failures) EXPECT_NE(failure, "");
}

TEST_F(JobTest, OptionsThatContradictOneAnotherAreRefused) {
  espalier_comm* comm = nullptr;
  char words[200] = "";
  espalier_comm_options both = Options();
  both.offload = "/nowhere";
  EXPECT_EQ(espalier_comm_create(nullptr, kJob, 0, 2, &both, &comm, words, sizeof(words)), -EINVAL);
  const espalier_comm_options options = Options();
  EXPECT_EQ(espalier_comm_create(nullptr, kJob, 0, 0, &options, &comm, words, sizeof(words)),
            -EINVAL);
  EXPECT_EQ(espalier_comm_create(nullptr, nullptr, 0, 2, &options, &comm, words, sizeof(words)),
            -EINVAL);
  EXPECT_EQ(comm, nullptr);
}

}  // namespace
}  // namespace espalier
