#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "common/base/time/event_loop.h"

namespace espalier::controller {

// When the flows of one job become busy: the job's rounds follow each other, and each flow has its
// places in each of them.
class RoundStarts {
 public:
  struct Shape {
    double period = 1;  // seconds, of a round
    double jitter = 0;  // of each round's length, a share of it, uniform to either side
    double drift = 0;   // by which each round is longer than the one before, a share
    double late = 0;    // seconds by which a flow may be late, each time
    double begin = 0;   // seconds
    std::uint32_t seed = 1;
  };
  explicit RoundStarts(const Shape& shape) : shape_(shape) {}

  // The begins of the rounds until `end`, in seconds.
  std::vector<double> Begins(double end) const {
    std::mt19937 random(shape_.seed);
    std::uniform_real_distribution<> to_either_side(-shape_.jitter, shape_.jitter);
    std::vector<double> begins;
    double period = shape_.period;
    for (double at = shape_.begin; at < end; at += period * (1 + to_either_side(random))) {
      begins.push_back(at);
      period *= 1 + shape_.drift;
    }
    return begins;
  }

  // The starts of a flow in all rounds until `end`. `places`: when in each round, in seconds.
  std::vector<TimePoint> Of(const std::vector<double>& places, double end) {
    std::uniform_real_distribution<> late(0, shape_.late);
    std::vector<TimePoint> starts;
    for (const double begin : Begins(end)) {
      for (const double place : places) {
        starts.push_back(TimePoint{} +
                         std::chrono::duration_cast<Duration>(
                             std::chrono::duration<double>(begin + place + late(random_))));
      }
    }
    std::ranges::sort(starts);
    return starts;
  }

 private:
  Shape shape_;
  std::mt19937 random_{7};
};

}  // namespace espalier::controller
