#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "controller/routing/assigner.h"
#include "controller/routing/live_paths.h"
#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {
namespace {

constexpr LivePaths::Options kAnyMoves{.max_moves = 1'000'000, .step_budget = 1'000'000'000};

// Spine 0 is taken at leaf 0 by `first`, spine 1 at leaf 3 by `second`: a flow from 0 to 3 finds
// room where one of them moves.
class Corner {
 public:
  Corner()
      : fabric_(Fabric::LeafSpine(2, 4)),
        paths_(fabric_->view, [this](LivePaths::Way way) { return bytes_[way.Index()]; }),
        first_(paths_.Add(0, 1)),
        second_(paths_.Add(2, 3)) {
    paths_.Place(first_, 0);
    paths_.Place(second_, 1);
  }

  LivePaths& paths() { return paths_; }
  LivePaths::Way first() const { return first_; }
  LivePaths::Way second() const { return second_; }
  void SetBytes(std::int64_t of_first, std::int64_t of_second) {
    bytes_ = {of_first, of_second, 0};
    paths_.SetLive(first_);
    paths_.SetLive(second_);
  }
  // Who moves for it, if anybody; then all is as before.
  std::vector<LivePaths::Way> Start(const LivePaths::Options& options) {
    const auto way = paths_.Add(0, 3);
    std::vector<LivePaths::Way> moved;
    for (const auto& move : paths_.Start(way, options)) {
      if (move.way != way) moved.push_back(move.way);
    }
    EXPECT_EQ(paths_.MaxLoad(), (Load{moved.empty() ? 2 : 1, 1}));
    paths_.Remove(way);
    paths_.Place(first_, 0);
    paths_.Place(second_, 1);
    return moved;
  }

 private:
  std::unique_ptr<Fabric> fabric_;
  std::vector<std::int64_t> bytes_{0, 0, 0};  // by way
  LivePaths paths_;
  LivePaths::Way first_;
  LivePaths::Way second_;
};

using Ways = std::vector<LivePaths::Way>;

TEST(LivePaths, MovesNoPinnedWayAndNoMoreBytesThanAllowed) {
  Corner corner;
  EXPECT_EQ(corner.Start(kAnyMoves).size(), 1U);
  corner.SetBytes(1'000, 100);
  LivePaths::Options options = kAnyMoves;
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

TEST(LivePaths, MovesTheWayWithFewerBytesInFlightAndFirstOneThatIsNotLive) {
  Corner corner;
  corner.SetBytes(5, 7);
  EXPECT_EQ(corner.Start(kAnyMoves), Ways{corner.first()});
  corner.SetBytes(7, 5);
  EXPECT_EQ(corner.Start(kAnyMoves), Ways{corner.second()});

  Corner half_new;
  half_new.paths().SetLive(half_new.second());
  EXPECT_EQ(half_new.Start(kAnyMoves), Ways{half_new.first()});
  LivePaths::Options no_live = kAnyMoves;
  no_live.max_live_moves = 0;
  EXPECT_EQ(half_new.Start(no_live), Ways{half_new.first()});
  half_new.paths().SetLive(half_new.first());
  EXPECT_EQ(half_new.Start(no_live), Ways{});
}

}  // namespace
}  // namespace espalier::controller
