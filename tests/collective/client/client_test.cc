#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/client/collective.h"
#include "collective/program/program_bytes.h"
#include "collective/runtime/offload/offload_service.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "tests/temporary_folder.h"

namespace espalier {
namespace {

void RunRanks(int size, const espalier_comm_options& options,
              const std::function<void(Collective&, int)>& body) {
  TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Collective group(folder.path(), "g", rank, size, options);
        body(group, rank);
      } catch (const CollectiveError& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CollectiveClient, DoesEveryCollective) {
  for (const std::uint32_t medium : {ESPALIER_SHARED_MEMORY, ESPALIER_TCP, ESPALIER_HOSTS}) {
    RunRanks(2, {.medium = medium}, [](Collective& group, int rank) {
      const std::vector<float> mine = {1.0F + static_cast<float>(rank), 10};
      std::vector<float> result(2);
      group.AllReduce(mine.data(), result.data(), 2);
      EXPECT_EQ(result, (std::vector<float>{3, 20}));
      group.AllReduce(mine.data(), result.data(), 2, ESPALIER_AVG);
      EXPECT_EQ(result, (std::vector<float>{1.5, 10}));
      group.Reduce(mine.data(), result.data(), 2, 1, ESPALIER_MAX);
      if (rank == 1) {
        EXPECT_EQ(result, (std::vector<float>{2, 10}));
      }
      std::vector<std::int64_t> word = {rank == 0 ? 42 : 0};
      group.Broadcast(word.data(), 1, 0);
      EXPECT_EQ(word[0], 42);
      std::vector<float> all(4);
      group.AllGather(mine.data(), all.data(), 2);
      EXPECT_EQ(all, (std::vector<float>{1, 10, 2, 10}));
      group.ReduceScatter(all.data(), result.data(), 2);
      EXPECT_EQ(result[1], 20);
      std::vector<float> exchanged(2);
      group.AllToAll(mine.data(), exchanged.data(), 1);
      EXPECT_EQ(exchanged, rank == 0 ? (std::vector<float>{1, 2}) : (std::vector<float>{10, 10}));
      group.Barrier();
    });
  }
}

// The second thread is refused at once, and the first one's call goes on.
TEST(CollectiveClient, RefusesASecondThread) {
  TemporaryFolder folder;
  std::vector<espalier_comm*> ranks(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ASSERT_EQ(espalier_comm_create(folder.path().c_str(), "g", rank, 2, nullptr,
                                     &ranks[static_cast<std::size_t>(rank)], nullptr, 0),
                0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  std::vector<float> sums(10, 1);
  threads.emplace_back([&] {
    int done = -EBUSY;  // until the other thread's test, below, is not in the way
    while (done == -EBUSY) {
      done = espalier_allreduce(ranks[0], sums.data(), sums.data(), 10, ESPALIER_F32, ESPALIER_SUM);
    }
    EXPECT_EQ(done, 0) << espalier_comm_error(ranks[0]);
  });
  while (espalier_test(ranks[0], 1) != -EBUSY) std::this_thread::yield();
  std::vector<float> others(10, 7);
  std::uint64_t request = 0;
  EXPECT_EQ(
      espalier_allreduce(ranks[0], others.data(), others.data(), 10, ESPALIER_F32, ESPALIER_SUM),
      -EBUSY);
  EXPECT_NE(std::string(espalier_comm_error(ranks[0])).find("another thread"), std::string::npos);
  EXPECT_EQ(espalier_barrier(ranks[0]), -EBUSY);
  EXPECT_EQ(espalier_post(ranks[0], ESPALIER_BARRIER, nullptr, nullptr, 0, ESPALIER_U8,
                          ESPALIER_SUM, ESPALIER_NO_ROOT, &request),
            -EBUSY);
  EXPECT_EQ(others, std::vector<float>(10, 7));
  std::vector<float> input(10, 2);
  EXPECT_EQ(
      espalier_allreduce(ranks[1], input.data(), input.data(), 10, ESPALIER_F32, ESPALIER_SUM), 0);
  threads[0].join();
  EXPECT_EQ(sums, std::vector<float>(10, 3));
  EXPECT_EQ(input, sums);
  EXPECT_EQ(espalier_test(ranks[0], 1), -ENOENT) << "the communicator is free again";
  EXPECT_EQ(std::string(espalier_comm_error(ranks[0])).find("another thread"), std::string::npos);
  for (espalier_comm* rank : ranks) espalier_comm_destroy(rank);
}

// Something that accepts connections and is silent has the store's port.
TEST(CollectiveClient, JoinsWithinItsLimit) {
  const auto place = transport::ParseAddress("127.0.0.1", 0);
  const auto silent = transport::Listen(*place);
  ASSERT_TRUE(silent) << silent.error().message;
  const std::string store =
      "tcp://127.0.0.1:" + std::to_string(*transport::LocalPort(silent->get()));
  const espalier_comm_options options = {.medium = ESPALIER_TCP, .timeout_ms = 4'000};
  espalier_comm* comm = nullptr;
  char error[512] = "";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(espalier_comm_create(store.c_str(), "g", 1, 2, &options, &comm, error, sizeof(error)),
            -ECONNABORTED)
      << error;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(7'500));
  EXPECT_EQ(espalier_comm_create(store.c_str(), "g", 0, 2, &options, &comm, error, sizeof(error)),
            -EADDRINUSE);
  EXPECT_NE(std::string(error).find(store.substr(6)), std::string::npos) << error;
}

// Two hosts of two ranks by their names.
TEST(CollectiveClient, SharesMemoryWithinHosts) {
  TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Collective group(folder.path(), "g", rank, 4,
                         {.medium = ESPALIER_HOSTS, .host = rank < 2 ? "a" : "b"});
        std::vector<float> data(100'000, static_cast<float>(rank));
        group.AllReduce(data.data(), data.data(), data.size());
        EXPECT_EQ(data, std::vector<float>(100'000, 6.0F));
      } catch (const CollectiveError& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The ranks join through rank 0's port, and the plan's program does the work.
TEST(CollectiveClient, RunsAPlan) {
  const auto made = algorithms::MakeAlgorithm("alltonext", {.ranks = 3});
  ASSERT_TRUE(made);
  const std::string program = program::EncodeProgram(*made);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Collective group("tcp://127.0.0.1:3001", "g", rank, 3, {.medium = ESPALIER_TCP});
        const espalier_source_port any = {
            .peer = static_cast<std::uint32_t>((rank + 1) % 3), .channel = 0, .port = 0};
        group.Use({.program = program.data(),
                   .program_bytes = program.size(),
                   .generation = 1,
                   .source_ports = &any,
                   .source_port_count = 1});
        const std::int32_t mine[2] = {rank, 7};
        std::int32_t others[2] = {-1, -1};
        group.Run(ESPALIER_ALLTONEXT, mine, others, 2);
        EXPECT_EQ(others[0], rank - 1);
        EXPECT_EQ(others[1], rank == 0 ? -1 : 7);
        group.Barrier();
      } catch (const CollectiveError& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CollectiveClient, MakesCallsThatWerePosted) {
  float abandoned = 1;  // a call's buffer must live until the group has ended
  RunRanks(2, {}, [&](Collective& group, int rank) {
    constexpr int kCalls = 20;
    std::vector<std::vector<float>> data(kCalls, std::vector<float>(1000, 1.0F));
    std::vector<std::uint64_t> requests;
    for (auto& one : data) {
      requests.push_back(group.Post(ESPALIER_ALLREDUCE, one.data(), one.data(), one.size()));
    }
    group.Barrier();  // after all of them
    for (int i = 0; i < kCalls; ++i) {
      EXPECT_TRUE(group.Test(requests[static_cast<std::size_t>(i)]));
      EXPECT_EQ(data[static_cast<std::size_t>(i)], std::vector<float>(1000, 2.0F));
    }
    EXPECT_THROW(group.Wait(99), CollectiveError);
    const auto wrong = group.Post<float>(ESPALIER_ALLREDUCE, nullptr, nullptr, 1);
    EXPECT_THROW(group.Wait(wrong), CollectiveError);
    group.Wait(wrong);
    // A call that the other rank never makes ends with the group.
    if (rank == 0) group.Post(ESPALIER_ALLREDUCE, &abandoned, &abandoned, 1);
  });
}

TEST(CollectiveClient, LeavesTheWorkToTheOffloadService) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/engine.sock";
  auto engine =
      runtime::OffloadService::Listen(path, {.networks = {*IpPrefix::Parse("127.0.0.0/8")}});
  ASSERT_TRUE(engine) << engine.error().message;
  const std::string store = "tcp://127.0.0.1:3002";
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Collective group(store, "g", rank, 2, {.offload = path.c_str()});
        auto* data = group.Allocate<double>(1000);
        std::fill_n(data, 1000, rank + 1.0);
        const auto request = group.Post(ESPALIER_ALLREDUCE, data, data, 1000);
        group.Wait(request);
        EXPECT_TRUE(std::all_of(data, data + 1000, [](double value) { return value == 3; }));
        group.Barrier();
        group.Free(data);
      } catch (const CollectiveError& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CollectiveClient, HasRegisteredBuffers) {
  RunRanks(2, {}, [](Collective& group, int) {
    constexpr std::size_t kCount = 500'000;
    auto* data = group.Allocate<double>(kCount);
    std::fill_n(data, kCount, 0.5);
    group.AllReduce(data, data, kCount);
    EXPECT_TRUE(std::all_of(data, data + kCount, [](double value) { return value == 1; }));
    group.Barrier();
    group.Free(data);
  });
}

// A folder and a name serve one run after another, also over TCP.
TEST(CollectiveClient, JoinsAgainInTheSameFolder) {
  for (const std::uint32_t medium : {ESPALIER_SHARED_MEMORY, ESPALIER_TCP}) {
    TemporaryFolder folder;
    const espalier_comm_options options = {.medium = medium};
    for (int run = 0; run < 3; ++run) {
      std::vector<std::thread> threads;
      for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([&, rank] {
          try {
            Collective group(folder.path(), "world", rank, 2, options);
            std::int64_t sum = rank + run;
            group.AllReduce(&sum, &sum, 1);
            EXPECT_EQ(sum, 1 + 2 * run);
          } catch (const CollectiveError& error) {
            ADD_FAILURE() << "run " << run << ", rank " << rank << ": " << error.what();
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
    }
  }
}

TEST(CollectiveClient, RefusesAnUnknownFolderAtOnce) {
  TemporaryFolder folder;
  const std::string typo = folder.path() + "/typo";
  for (const std::uint32_t medium : {ESPALIER_SHARED_MEMORY, ESPALIER_TCP}) {
    const espalier_comm_options options = {.medium = medium};
    espalier_comm* comm = nullptr;
    char words[300] = "";
    EXPECT_EQ(espalier_comm_create(typo.c_str(), "g", 0, 2, &options, &comm, words, sizeof(words)),
              -ENOENT);
    EXPECT_NE(std::string(words).find(typo + ": there is no such folder"), std::string::npos)
        << words;
  }
}

// Neither a file that an earlier version left, nor an earlier failure of this one, is another
// error's text.
TEST(CollectiveClient, GivesEachErrorItsOwnText) {
  TemporaryFolder folder;
  const espalier_comm_options hasty = {.timeout_ms = 50};
  espalier_comm* comm = nullptr;
  char words[300] = "";
  EXPECT_EQ(
      espalier_comm_create(folder.path().c_str(), "g", 0, 2, &hasty, &comm, words, sizeof(words)),
      -ECONNABORTED);
  EXPECT_EQ(std::string(words).find("ranks that did not join in time: 1"), 0U) << words;
  EXPECT_EQ(
      espalier_comm_create(folder.path().c_str(), "g", 5, 2, &hasty, &comm, words, sizeof(words)),
      -EINVAL);
  EXPECT_STREQ(words, "rank 5 of 2: ranks count from 0 to one below the size");
}

TEST(CollectiveClient, SaysWhatIsWrong) {
  TemporaryFolder folder;
  espalier_comm* comm = nullptr;
  char words[200] = "";
  EXPECT_EQ(espalier_comm_create(nullptr, "g", 0, 1, nullptr, &comm, words, sizeof(words)),
            -EINVAL);
  EXPECT_STREQ(words, "store or name is null (a group needs both)");
  EXPECT_EQ(
      espalier_comm_create(folder.path().c_str(), "g", 1, 1, nullptr, &comm, words, sizeof(words)),
      -EINVAL);
  const espalier_comm_options hasty = {.timeout_ms = 100};
  char few_words[10] = "";
  EXPECT_EQ(espalier_comm_create(folder.path().c_str(), "g", 0, 2, &hasty, &comm, few_words,
                                 sizeof(few_words)),
            -ECONNABORTED);
  EXPECT_EQ(std::string(few_words).size(), 9U);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(espalier_barrier(nullptr), -EINVAL);
  espalier_comm_destroy(nullptr);

  ASSERT_EQ(espalier_comm_create(folder.path().c_str(), "alone", 0, 1, nullptr, &comm, nullptr, 0),
            0);
  EXPECT_STREQ(espalier_comm_error(comm), "");
  float value = 3;
  EXPECT_EQ(espalier_allreduce(comm, &value, &value, 1, 99, ESPALIER_SUM), -EINVAL);
  EXPECT_STREQ(espalier_comm_error(comm), "unknown element type (see espalier_type)");
  EXPECT_EQ(espalier_allreduce(comm, &value, &value, 1, ESPALIER_F32, -1), -EINVAL);
  EXPECT_EQ(espalier_broadcast(comm, &value, 1, ESPALIER_F32, 1), -EINVAL);
  EXPECT_EQ(espalier_allreduce(comm, &value, &value, 1, ESPALIER_F32, ESPALIER_AVG), 0);
  EXPECT_EQ(value, 3);
  EXPECT_EQ(espalier_comm_free(comm, &value), -ENOENT);
  EXPECT_EQ(espalier_comm_use(comm, nullptr), -EINVAL);
  const espalier_plan damaged = {.program = "junk", .program_bytes = 4};
  EXPECT_EQ(espalier_comm_use(comm, &damaged), -EINVAL);
  EXPECT_EQ(espalier_run(comm, 99, &value, &value, 1, ESPALIER_F32, ESPALIER_SUM, 0), -EINVAL);
  EXPECT_EQ(espalier_run(comm, ESPALIER_CUSTOM, &value, &value, 1, ESPALIER_F32, ESPALIER_SUM, -1),
            -EINVAL);
  EXPECT_STREQ(espalier_comm_error(comm),
               "no plan for a custom call of that size (put one in force first)");
  EXPECT_EQ(espalier_barrier(comm), 0);
  espalier_comm_destroy(comm);
}

}  // namespace
}  // namespace espalier
