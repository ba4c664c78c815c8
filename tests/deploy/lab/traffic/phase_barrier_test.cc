#include "deploy/lab/traffic/phase_barrier.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/temporary_folder.h"

namespace espalier::traffic {
namespace {

class PhaseBarrierTest : public testing::Test {
 protected:
  void Open(const std::vector<std::string>& hosts) {
    for (const std::string& host : hosts) {
      auto barrier =
          PhaseBarrier::Open(loop_, folder_.path() + "/run", host, [&](int job, int step) {
            released_.emplace_back(job, step);
            if (released_.size() == expected_) loop_.Stop();
          });
      ASSERT_TRUE(barrier.has_value()) << barrier.error().message;
      (*barrier)->AddJob(5, hosts);
      barriers_.push_back(std::move(*barrier));
    }
  }

  void RunUntilReleased(std::size_t times) {
    expected_ = times;
    const TimerPtr limit = loop_.After(std::chrono::seconds(30), [&] {
      ADD_FAILURE() << "not released";
      loop_.Stop();
    });
    loop_.Run();
  }

  TemporaryFolder folder_;
  io::AsioEventLoop loop_;
  std::vector<std::pair<int, int>> released_;
  std::size_t expected_ = 0;
  std::vector<std::unique_ptr<PhaseBarrier>> barriers_;
};

TEST_F(PhaseBarrierTest, ReleasesAllHostsWhenTheLastHasArrived) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 9; ++i) hosts.push_back("h" + std::to_string(i));
  Open(hosts);
  for (int step = 0; step < 3; ++step) {
    released_.clear();
    for (std::size_t i = 1; i < barriers_.size(); ++i) barriers_[i]->Arrive(5, step);
    EXPECT_TRUE(released_.empty());
    barriers_[0]->Arrive(5, step);
    EXPECT_TRUE(released_.empty());  // never inside Arrive
    RunUntilReleased(barriers_.size());
    EXPECT_EQ(released_, std::vector(9, std::pair(5, step)));
  }
}

TEST_F(PhaseBarrierTest, RemovesItsSocket) {
  Open({"a", "b"});
  barriers_.clear();
  Open({"a", "b"});
}

TEST_F(PhaseBarrierTest, RefusesAPathThatIsTooLong) {
  const auto barrier = PhaseBarrier::Open(loop_, folder_.path() + "/" + std::string(100, 'x'), "h0",
                                          [](int, int) {});
  ASSERT_FALSE(barrier.has_value());
  EXPECT_EQ(barrier.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace espalier::traffic
