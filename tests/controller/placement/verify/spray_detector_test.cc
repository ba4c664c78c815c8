// Which changes of a port's path are told to be spraying.
#include "controller/placement/verify/spray_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kFirstLook{std::chrono::hours(1)};

class Spraying : public testing::Test {
 protected:
  // A probe sees the port on this path. True: it is to be probed again.
  bool See(int path, const std::string& host = "h0") {
    now_ += 200ms;
    int& before = last_[host];
    const bool is_new = before != path;
    const bool again = detector_.HandleSighting(
        {leaf_, host}, port_, fabric::PathIndex(path),
        is_new ? std::optional(fabric::PathIndex(before)) : std::nullopt, now_);
    before = path;
    return again;
  }
  // Plays these sightings, and then the last one until no more are asked for. Returns how many.
  std::size_t Play(const std::vector<int>& paths, const std::string& host = "h0") {
    std::size_t seen = 0;
    while (seen < 100 && See(paths[std::min(seen, paths.size() - 1)], host)) ++seen;
    return seen;
  }

  const fabric::NodeId leaf_{7};
  const SprayDetector::Port port_{{.source = fabric::NodeId(1), .destination = fabric::NodeId(2)},
                                  50'000};
  SprayDetector detector_;
  std::map<std::string, int> last_;
  TimePoint now_ = kFirstLook;
};

TEST_F(Spraying, APortThatChangesItsPathAgainAndAgainIsSprayed) {
  EXPECT_FALSE(See(0));
  Play({1, 0, 0, 1, 1, 0});
  const auto verdicts = detector_.TakeVerdicts();
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_TRUE(verdicts[0].sprays);
  EXPECT_EQ(verdicts[0].sender, SprayDetector::Sender(leaf_, "h0"));
  EXPECT_NE(verdicts[0].path, verdicts[0].other);
  EXPECT_FALSE(See(1));  // nothing is probed again before a minute is over
  EXPECT_TRUE(detector_.TakeDue(now_ + 50s).empty());
}

TEST_F(Spraying, AHashThatChangesIsNone) {
  See(0);
  EXPECT_EQ(Play({2}), SprayDetector::kProbes);
  EXPECT_TRUE(detector_.TakeVerdicts().empty());
}

TEST_F(Spraying, ARouteThatIsLostAndComesBackIsNone) {
  See(0);
  Play({1, 1, 1, 0});
  EXPECT_TRUE(detector_.TakeVerdicts().empty());
}

TEST_F(Spraying, CostsNothingForAPortThatStaysWhereItIs) {
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(See(0));
}

TEST_F(Spraying, EndsWhenARowOfProbesShowsNoChange) {
  Play({1, 0, 1, 0, 1});
  detector_.TakeVerdicts();
  now_ += SprayDetector::kRecheck;
  EXPECT_EQ(detector_.TakeDue(now_), std::vector{port_});
  Play({1, 0, 1, 0, 1});  // it still sprays
  EXPECT_TRUE(detector_.TakeVerdicts().empty());
  now_ += SprayDetector::kRecheck;
  EXPECT_EQ(detector_.TakeDue(now_).size(), 1U);
  Play({last_["h0"]});
  const auto verdicts = detector_.TakeVerdicts();
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_FALSE(verdicts[0].sprays);
}

TEST_F(Spraying, EndsWhenTheHostAnswersNoMore) {
  Play({1, 0, 1, 0, 1});
  detector_.TakeVerdicts();
  now_ += SprayDetector::kRecheck;
  detector_.TakeDue(now_);
  now_ += SprayDetector::kRecheck;
  EXPECT_TRUE(detector_.TakeDue(now_).empty());
  EXPECT_EQ(detector_.TakeVerdicts().size(), 1U);
}

TEST_F(Spraying, AHostSpeaksForItselfAlone) {
  Play({1, 0, 1, 0, 1}, "h1");
  See(0, "h0");
  const auto verdicts = detector_.TakeVerdicts();
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].sender.second, "h1");
}

}  // namespace
}  // namespace espalier::controller
