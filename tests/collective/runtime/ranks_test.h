#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/runtime/group/communicator.h"
#include "collective/transport/stores/file_store.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {

// Groups whose ranks are threads of this process.
class RanksTest : public ::testing::TestWithParam<Medium> {
 protected:
  Result<std::unique_ptr<Communicator>> Join(
      int rank, int size, std::chrono::milliseconds timeout = std::chrono::seconds(100)) {
    return Communicator::Join(store_, group_name_, rank, size,
                              {.medium = GetParam(),
                               .timeout = timeout,
                               .host = std::to_string(rank / ranks_per_host_),
                               .connections = 2,
                               .algorithm = algorithm_});
  }

  void RunRanks(int size, const std::function<void(Communicator&)>& body,
                std::chrono::milliseconds timeout = std::chrono::seconds(100)) {
    std::vector<std::thread> threads;
    // A failed call ends the group, even for a rank that is still joining.
    std::barrier all_have_joined(size);
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        auto communicator = Join(rank, size, timeout);
        all_have_joined.arrive_and_wait();
        ASSERT_TRUE(communicator) << communicator.error().message;
        body(**communicator);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::string group_name_ = "g";
  int ranks_per_host_ = 2;  // of Medium::kHosts
  std::string algorithm_;
  TemporaryFolder folder_;
  transport::FileStore store_{folder_.path()};
};

}  // namespace espalier::runtime
