// Bursts of flows, and how those of one flow lie beside those of another one.
#include "controller/rounds/burst_log.h"

#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{std::chrono::hours(1)};

// Bursts of 400 ms, one a second.
class Bursts : public testing::Test {
 protected:
  Bursts() {
    for (int i = 0; i < 5; ++i) {
      log_.Begin(kStart + i * 1s);
      log_.End(kStart + i * 1s + 400ms);
    }
  }
  // Of a burst beside the one before the last.
  BurstLog::Place Place(Duration began, Duration length) const {
    return *log_.PlaceOf({kStart + 3s + began, kStart + 3s + began + length});
  }
  BurstLog log_{8};
};

TEST_F(Bursts, HavePausesThatAreShorterThanTheGap) {
  BurstLog log(8);
  EXPECT_TRUE(log.Begin(kStart));
  log.End(kStart + 10ms);
  EXPECT_FALSE(log.Begin(kStart + 10ms + kBurstGap - 1ns));
  log.End(kStart + 100ms);
  EXPECT_EQ(log.size(), 1U);
  EXPECT_EQ(log.At(0).ended, kStart + 100ms);
  EXPECT_TRUE(log.Begin(kStart + 100ms + kBurstGap));
  EXPECT_EQ(log.At(1).began, kStart);
}

TEST_F(Bursts, AreKeptUpToALimit) {
  EXPECT_EQ(log_.Kept(2).size(), 2U);
  EXPECT_EQ(log_.Kept(2).At(1).began, kStart + 3s);
  for (int i = 5; i < 100; ++i) log_.Begin(kStart + i * 1s), log_.End(kStart + i * 1s + 1ms);
  EXPECT_EQ(log_.size(), 8U);
  EXPECT_EQ(log_.At(7).began, kStart + 92s);
}

TEST_F(Bursts, AreBesideTheNearestIfTheyBeginWithinHalfOfTheShorter) {
  const BurstLog::Place place = Place(-20ms, 400ms);
  EXPECT_EQ(place.age, 1U);
  EXPECT_EQ(place.offset, -20ms);
  EXPECT_EQ(place.tolerance, kBurstGap);
  EXPECT_TRUE(place.is_beside);
  EXPECT_TRUE(Place(200ms, 400ms).is_beside);
  EXPECT_FALSE(Place(201ms, 400ms).is_beside);
  EXPECT_FALSE(Place(100ms, 150ms).is_beside);
}

TEST_F(Bursts, AreWithinOneThatLastsLonger) {
  EXPECT_TRUE(Place(300ms, 100ms).is_within);
  EXPECT_TRUE(Place(300ms, 140ms).is_within);  // by the tolerance
  EXPECT_FALSE(Place(300ms, 200ms).is_within);
  EXPECT_FALSE(Place(-100ms, 90ms).is_within);
  log_.Begin(kStart + 5s);  // which lasts
  EXPECT_TRUE(log_.PlaceOf({kStart + 8s, kStart + 9s})->is_within);
}

TEST_F(Bursts, OfAShortPeriodAreToldApartMoreNarrowly) {
  BurstLog quick(8);
  for (int i = 0; i < 8; ++i) {
    quick.Begin(kStart + i * 100ms);
    quick.End(kStart + i * 100ms + 30ms);
  }
  EXPECT_EQ(quick.PlaceOf({kStart + 110ms, kStart + 200ms})->tolerance, 20ms);
}

TEST_F(Bursts, OneAloneSaysNothing) {
  BurstLog log(8);
  log.Begin(kStart);
  EXPECT_FALSE(log.PlaceOf({kStart, kStart + 1s}).has_value());
}

}  // namespace
}  // namespace espalier::controller
