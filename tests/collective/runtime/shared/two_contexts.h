#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>

#include "collective/runtime/shared/area/shared_context.h"
#include "collective/transport/stores/file_store.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {

// Two ranks of a group in shared memory, both of this process.
class TwoContexts : public testing::Test {
 protected:
  void SetUp() override {
    RunBoth([this](int rank) { contexts_[rank] = Join(rank); });
  }
  void RunBoth(const std::function<void(int rank)>& body) {
    std::thread other([&] { body(1); });
    body(0);
    other.join();
  }
  static transport::Deadline InAWhile() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(100);
  }

  SharedContext& context(int rank) { return *contexts_[rank]; }

 private:
  std::unique_ptr<SharedContext> Join(int rank) {
    auto group =
        transport::SharedGroup::Join(store_, "g", rank, 2, 2 * sizeof(RankArea), InAWhile());
    EXPECT_TRUE(group) << group.error().message;
    return std::make_unique<SharedContext>(std::move(*group));
  }

  TemporaryFolder folder_;
  transport::FileStore store_{folder_.path()};
  std::unique_ptr<SharedContext> contexts_[2];
};

}  // namespace espalier::runtime
