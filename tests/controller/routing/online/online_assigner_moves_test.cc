#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "controller/routing/assigner.h"
#include "controller/routing/online/online_assigner.h"
#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {
namespace {

constexpr OnlineAssigner::Options kAnyMoves{.max_moves = 1'000'000, .step_budget = 1'000'000'000};

// `first` takes spine 0 at leaf 0, and `second` takes spine 1 at leaf 3. A flow from leaf 0 to leaf
// 3 finds room only if one of them moves.
class Corner {
 public:
  Corner()
      : fabric_(Fabric::LeafSpine(2, 4)),
        paths_(fabric_->view, [this](SubflowId subflow) { return bytes_[subflow.Index()]; }),
        first_(paths_.Add(0, 1)),
        second_(paths_.Add(2, 3)) {
    paths_.Place(first_, 0);
    paths_.Place(second_, 1);
  }

  OnlineAssigner& paths() { return paths_; }
  SubflowId first() const { return first_; }
  SubflowId second() const { return second_; }
  void SetBytes(std::int64_t of_first, std::int64_t of_second) {
    bytes_ = {of_first, of_second, 0};
    paths_.SetInProgress(first_);
    paths_.SetInProgress(second_);
  }
  // Returns which subflow moves for it, if any, and restores the state before.
  std::vector<SubflowId> Start(const OnlineAssigner::Options& options) {
    const auto subflow = paths_.Add(0, 3);
    std::vector<SubflowId> moved;
    for (const auto& move : paths_.Start(subflow, options)) {
      if (move.subflow != subflow) moved.push_back(move.subflow);
    }
    EXPECT_EQ(paths_.MaxLoad(), (Load{moved.empty() ? 2 : 1, 1}));
    paths_.Remove(subflow);
    paths_.Place(first_, 0);
    paths_.Place(second_, 1);
    return moved;
  }

 private:
  std::unique_ptr<Fabric> fabric_;
  std::vector<std::int64_t> bytes_{0, 0, 0};  // by subflow
  OnlineAssigner paths_;
  SubflowId first_;
  SubflowId second_;
};

using Ways = std::vector<SubflowId>;

TEST(OnlineAssigner, MovesNoPinnedSubflowAndNoMoreBytesThanAllowed) {
  Corner corner;
  EXPECT_EQ(corner.Start(kAnyMoves).size(), 1U);
  corner.SetBytes(1'000, 100);
  OnlineAssigner::Options options = kAnyMoves;
  options.max_moved_bytes = 99;
  EXPECT_EQ(corner.Start(options), Ways{});
  options.max_moved_bytes = 100;
  EXPECT_EQ(corner.Start(options), Ways{corner.second()});
  corner.paths().Pin(corner.second(), true);
  EXPECT_EQ(corner.Start(options), Ways{});
  options.max_moved_bytes = 1'000;
  EXPECT_EQ(corner.Start(options), Ways{corner.first()});
  corner.paths().Pin(corner.first(), true);
  EXPECT_EQ(corner.Start(kAnyMoves), Ways{});
}

TEST(OnlineAssigner, MovesTheSubflowWithFewestBytesInFlightAndThoseNotInProgressFirst) {
  Corner corner;
  corner.SetBytes(5, 7);
  EXPECT_EQ(corner.Start(kAnyMoves), Ways{corner.first()});
  corner.SetBytes(7, 5);
  EXPECT_EQ(corner.Start(kAnyMoves), Ways{corner.second()});

  Corner half_new;
  half_new.paths().SetInProgress(half_new.second());
  EXPECT_EQ(half_new.Start(kAnyMoves), Ways{half_new.first()});
  OnlineAssigner::Options no_live = kAnyMoves;
  no_live.max_in_progress_moves = 0;
  EXPECT_EQ(half_new.Start(no_live), Ways{half_new.first()});
  half_new.paths().SetInProgress(half_new.first());
  EXPECT_EQ(half_new.Start(no_live), Ways{});
}

}  // namespace
}  // namespace espalier::controller
