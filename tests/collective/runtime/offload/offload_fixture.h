#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/runtime/offload/offload_service.h"
#include "collective/runtime/offload/offloaded_group.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {

// A store at a free port.
inline std::string FreeStore() {
  static std::uint16_t last = 5'000;
  return "tcp://127.0.0.1:" + std::to_string(++last);
}

inline void ExpectDone(const Result<void>& result) {
  ASSERT_TRUE(result) << result.error().message;
}

// An offload service in this process, and groups whose ranks are threads.
class OffloadTest : public ::testing::Test {
 protected:
  // These groups have no job, so the service must allow their network.
  static OffloadOptions Options() { return {.networks = {*IpPrefix::Parse("127.0.0.0/8")}}; }
  void StartEngine() {
    auto engine = OffloadService::Listen(path_, Options());
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
  }
  Result<std::unique_ptr<OffloadedGroup>> Join(int rank, int size, CommunicatorOptions options) {
    options.medium = Medium::kTcp;
    return OffloadedGroup::Join(path_, store_, "g", rank, size, options);
  }
  void RunRanks(int size, const CommunicatorOptions& options,
                const std::function<void(Group&)>& body) {
    std::vector<std::thread> threads;
    // A failed call ends the group, even for a rank that is still joining.
    std::barrier all_have_joined(size);
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        auto group = Join(rank, size, options);
        all_have_joined.arrive_and_wait();
        ASSERT_TRUE(group) << group.error().message;
        body(**group);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Whether the offload service still works.
  void ExpectWorks() {
    store_ = FreeStore();
    RunRanks(2, {}, [](Group& group) {
      float value = 1;
      ExpectDone(group.Run(program::CollectiveKind::kAllReduce, &value, &value, 1,
                           reduce::DataType::kF32, reduce::ReduceOp::kSum, program::kNoRoot));
      EXPECT_EQ(value, 2);
    });
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/engine.sock";
  std::string store_ = FreeStore();
  std::unique_ptr<OffloadService> engine_;
};

}  // namespace espalier::runtime
