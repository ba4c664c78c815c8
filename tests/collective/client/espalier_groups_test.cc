#include "collective/client/espalier_groups.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collective/client/collective.h"
#include "tests/temporary_folder.h"

namespace espalier {
namespace {

std::int64_t SumOf(Collective& group, std::int64_t value) {
  group.AllReduce(&value, &value, 1);
  return value;
}

TEST(Groups, AreSplitByColors) {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      std::optional<Collective> part;
      {
        Collective group(folder.path(), "g", rank, 3);
        EXPECT_EQ(group.rank(), rank);
        EXPECT_EQ(group.size(), 3);
        part = group.Split(rank == 1 ? ESPALIER_NO_COLOR : 0, -rank);
        EXPECT_EQ(part.has_value(), rank != 1);
        try {
          group.Split(-2);
          ADD_FAILURE() << "a color of -2";
        } catch (const CollectiveError& error) {
          EXPECT_EQ(error.code(), -EINVAL);
        }
        EXPECT_EQ(SumOf(group, rank), 3);
      }
      // The part outlives the whole.
      if (!part) return;
      EXPECT_EQ(part->rank(), rank == 2 ? 0 : 1);
      EXPECT_EQ(SumOf(*part, rank), 2);
      EXPECT_TRUE(part->Lost().empty());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Elastic training: a rank is killed in the middle of a step, and the survivors go on with the step
// that not all of them have completed.
bool Train(const std::string& folder, espalier_medium medium, int rank) {
  std::optional<Collective> group;
  group.emplace(folder, "world", rank, 4, espalier_comm_options{.medium = medium});
  std::vector<double> gradient(50'000, rank);
  std::vector<double> sum(gradient.size());
  std::int64_t step = 0;
  while (step < 6) {
    try {
      if (rank == 1 && step == 3) ::raise(SIGKILL);
      group->AllReduce(gradient.data(), sum.data(), sum.size());
      if (sum.front() != (group->size() == 4 ? 6 : 5)) return false;
      ++step;
    } catch (const CollectiveError& error) {
      if (error.code() != -ECONNABORTED) return false;
      if (std::string(error.what()).find("rank 1") == std::string::npos) return false;
      group = group->Reform();
      if (group->Lost() != std::vector<int>{1}) return false;
      group->AllReduce(&step, &step, 1, ESPALIER_MIN);
      if (step < 2 || step > 3) return false;
    }
  }
  return group->size() == 3 && sum.back() == 5;
}

class ElasticTest : public testing::TestWithParam<espalier_medium> {};
INSTANTIATE_TEST_SUITE_P(All, ElasticTest, testing::Values(ESPALIER_SHARED_MEMORY, ESPALIER_TCP),
                         [](const auto& test) {
                           return test.param == ESPALIER_TCP ? "tcp" : "shm";
                         });

TEST_P(ElasticTest, TrainingGoesOnWithTheSurvivors) {
  const TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int rank = 0; rank < 4; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    bool is_right = false;
    try {
      is_right = Train(folder.path(), GetParam(), rank);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    ::_exit(is_right ? 0 : 1);
  }
  for (int rank = 0; rank < 4; ++rank) {
    int status = 0;
    ASSERT_GT(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0), 0);
    EXPECT_TRUE(rank == 1 ? WIFSIGNALED(status) : status == 0) << rank << ": " << status;
  }
}

// A store in the network ends with rank 0, which serves it.
TEST(Groups, AreNotFormedAgainWithoutTheirStore) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    std::string why;
    try {
      Collective group("tcp://127.0.0.1:10900", "g", rank, 2, {.medium = ESPALIER_TCP});
      try {
        group.Barrier();  // both ranks have joined
        if (rank == 0) ::raise(SIGKILL);
        group.Barrier();
      } catch (const CollectiveError&) {
        group.Reform();
      }
    } catch (const CollectiveError& error) {
      why = error.what();
    }
    const bool is_named = why.find("rendezvous store at 127.0.0.1:10900: ") != std::string::npos;
    ::_exit(is_named && why.find("rank 0, which serves it, has ") != std::string::npos ? 0 : 1);
  }
  for (int rank = 0; rank < 2; ++rank) {
    int status = 0;
    ASSERT_GT(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0), 0);
    EXPECT_TRUE(rank == 0 ? WIFSIGNALED(status) : status == 0) << status;
  }
}

TEST(Groups, SayWhoseCallsTheyAre) {
  EXPECT_EQ(espalier_comm_rank(nullptr), -EINVAL);
  EXPECT_EQ(espalier_comm_size(nullptr), -EINVAL);
  EXPECT_EQ(espalier_comm_lost(nullptr, nullptr, 0), -EINVAL);
  espalier_comm* part = nullptr;
  EXPECT_EQ(espalier_comm_split(nullptr, 0, 0, &part), -EINVAL);
  EXPECT_EQ(espalier_comm_reform(nullptr, 0, 0, &part), -EINVAL);
  EXPECT_EQ(part, nullptr);
}

}  // namespace
}  // namespace espalier
