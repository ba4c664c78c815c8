#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/prediction/cycle_learner.h"

namespace espalier::controller {

using KeySet = std::set<CycleLearner::Key>;

// The flows of a job that are busy together: `count` flows from key `first` on.
inline KeySet Flows(std::uint64_t first, std::uint64_t count) {
  KeySet keys;
  for (std::uint64_t i = 0; i < count; ++i) keys.insert(CycleLearner::Key(first + i));
  return keys;
}
inline KeySet operator+(KeySet a, const KeySet& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// Communication of a job in each iteration.
struct ScheduledPhase {
  KeySet flows;
  Duration offset{};
  Duration busy{};
  int steps = 1;  // of a ring: between steps each flow is idle for `pause`
  Duration pause{};
};

struct JobSchedule {
  std::vector<ScheduledPhase> phases;
  Duration period = std::chrono::seconds(1);
  double jitter = 0;      // of all durations, uniform to either side
  double drift = 0;       // of the period, each time
  double lost_ends = 0;   // share of ends that are not reported
  double stragglers = 0;  // share of flows that start and end late, by a tenth of the period
};

// Plays the edges of jobs in the order of time.
class EdgePlayer {
 public:
  struct Edge {
    TimePoint time;
    bool is_start = false;
    CycleLearner::Key key;
    auto operator<=>(const Edge&) const = default;
  };

  EdgePlayer(JobSchedule schedule, std::uint64_t seed)
      : schedule_(std::move(schedule)), random_(static_cast<std::uint32_t>(seed)) {}

  std::vector<Edge> NextIteration() {
    std::vector<Edge> edges;
    TimePoint begin = now_;
    Duration last_offset{};
    for (const ScheduledPhase& phase : schedule_.phases) {
      begin += Vary(phase.offset - last_offset);
      last_offset = phase.offset;
      const Duration busy = Vary(phase.busy);
      for (const auto key : phase.flows) {
        TimePoint start = begin + std::chrono::microseconds(random_() % 1'000);
        if (Chance(schedule_.stragglers)) start += schedule_.period / 10;
        for (int step = 0; step < phase.steps; ++step) {
          const TimePoint end = start + (busy - (phase.steps - 1) * phase.pause) / phase.steps;
          edges.push_back({start, true, key});
          if (!Chance(schedule_.lost_ends)) edges.push_back({end, false, key});
          start = end + phase.pause;
        }
      }
    }
    now_ = begin + Vary(schedule_.period - last_offset);
    schedule_.period += Scale(schedule_.period, schedule_.drift);
    std::ranges::sort(edges);
    return edges;
  }
  TimePoint now() const { return now_; }

 private:
  static Duration Scale(Duration duration, double by) {
    return Duration(static_cast<std::int64_t>(static_cast<double>(duration.count()) * by));
  }
  Duration Vary(Duration duration) {
    std::uniform_real_distribution<double> part(-schedule_.jitter, schedule_.jitter);
    return duration + Scale(duration, part(random_));
  }
  bool Chance(double share) { return std::uniform_real_distribution<double>()(random_) < share; }

  JobSchedule schedule_;
  std::mt19937 random_;
  TimePoint now_{std::chrono::hours(1)};
};

// Rings of data parallelism, and tensor and pipeline traffic between them, in 2 to 6 phases that
// follow each other in equal distances. From 4 phases on, flows are in several of them.
inline JobSchedule TrainingJob(std::size_t phases, double jitter) {
  const KeySet ring = Flows(100, 8);
  const KeySet tensor = Flows(200, 4);
  const KeySet pipeline = Flows(300, 4);
  const KeySet second_ring = Flows(400, 8);
  const std::vector<std::vector<KeySet>> all = {
      {tensor + pipeline, ring},
      {tensor, pipeline, ring},
      {tensor, pipeline, tensor, ring},
      {tensor, pipeline + tensor, pipeline, ring, second_ring},
      {pipeline, tensor, pipeline, tensor, ring, ring + pipeline}};
  JobSchedule job{.jitter = jitter};
  const auto& flows = all.at(phases - 2);
  const Duration distance = job.period / phases;
  for (std::size_t i = 0; i < phases; ++i) {
    job.phases.push_back({flows[i], static_cast<std::int64_t>(i) * distance, distance * 7 / 10});
  }
  return job;
}

// Feeds a learner and counts the starts that it predicted: the flow is in a set whose expected
// start is less than `tolerance` away, or in a set that has partly started.
class PredictionTally {
 public:
  PredictionTally(CycleLearner& learner, Duration tolerance)
      : learner_(learner), tolerance_(tolerance) {}

  void Play(const std::vector<EdgePlayer::Edge>& edges) {
    for (const auto& edge : edges) {
      if (!edge.is_start) {
        learner_.HandleEnd(edge.key, edge.time);
        continue;
      }
      ++starts_;
      if (IsPredicted(edge)) ++hits_;
      learner_.HandleStart(edge.key, 1 << 20, edge.time);
    }
  }
  void Reset() { starts_ = hits_ = 0; }
  double HitRate() const { return static_cast<double>(hits_) / static_cast<double>(starts_); }

 private:
  bool IsPredicted(const EdgePlayer::Edge& edge) {
    learner_.Tick(edge.time);
    for (const auto& next : learner_.Upcoming()) {
      for (const auto& member : learner_.MembersOf(next.set)) {
        if (member.key != edge.key) continue;
        if (!member.has_started && learner_.HasPartlyStarted(next.set)) return true;
        if (!next.expected) continue;
        const Duration error = *next.expected - edge.time;
        if (error < tolerance_ && -error < tolerance_) return true;
      }
    }
    return false;
  }

  CycleLearner& learner_;
  Duration tolerance_;
  int starts_ = 0;
  int hits_ = 0;
};

inline std::set<KeySet> MembersOf(const std::vector<LearnedPhase>& phases) {
  std::set<KeySet> members;
  for (const auto& phase : phases) members.emplace(phase.members.begin(), phase.members.end());
  return members;
}

}  // namespace espalier::controller
