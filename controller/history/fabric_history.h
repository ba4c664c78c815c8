#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/history/job_directory.h"
#include "controller/history/sample_ring.h"

namespace espalier::controller {

// The past of the fabric: loads and states of links, jobs and their rounds, the slowest flows,
// health, in memory only.
// Resolution falls with age. The last ten minutes are kept second by second, since a round of a job
// takes seconds; two hours in steps of ten seconds, for whoever is called about a slow job; a day
// in minutes, to compare with yesterday. Events and pushed decisions are kept elsewhere
// (EventHistory, PushLog); here are only their numbers.
//
// Memory: at most the budget, used as the rings fill. If the budget is too small for the fabric,
// all resolutions reach back less far; docs/benchmarks.md has figures.
// Cost: Add is O(links), and every tenth time O(10 x links). Queries are O(samples).
// Thread safety: one thread.
class FabricHistory {
 public:
  static constexpr std::size_t kMostJobs = 64;   // in a sample: those with the most flows
  static constexpr std::size_t kMostFlows = 16;  // in a sample: the slowest of those that send
  struct Resolution {
    Duration step;
    std::size_t samples;
  };
  static constexpr std::array<Resolution, 3> kResolutions = {{
      {std::chrono::seconds(1), 600},
      {std::chrono::seconds(10), 720},
      {std::chrono::seconds(60), 1'440},
  }};
  static constexpr std::size_t kDefaultBudget = 64 << 20;

  // `budget`: bytes; 0 keeps nothing.
  explicit FabricHistory(std::size_t links, std::size_t budget = kDefaultBudget);

  // Samples must be younger than the last one; others are dropped. Their links must be `links`.
  void Add(const Sample& sample);
  JobDirectory& jobs() { return jobs_; }
  const JobDirectory& jobs() const { return jobs_; }

  // The samples of a time span, oldest first; empty if there are none.
  struct Series {
    const SampleRing* ring = nullptr;
    Duration step{};
    std::size_t begin = 0;  // of the ring
    std::size_t end = 0;
  };
  // From the finest resolution that reaches back to `from`, or from the one given.
  Series Between(TimePoint from, TimePoint to, std::optional<Duration> step = {}) const;
  // The sample that describes a time best, with its resolution; none before the oldest one.
  struct Moment {
    Sample sample;
    Duration step{};
  };
  std::optional<Moment> At(TimePoint time) const;
  // When the oldest sample begins.
  std::optional<TimePoint> oldest() const;

  std::size_t links() const { return links_; }
  // What all rings take when they are full, and what they take now.
  std::size_t full_bytes() const;
  std::size_t used_bytes() const;

 private:
  void AddMerged(std::size_t finer, TimePoint next);

  std::size_t links_;
  std::size_t sample_bytes_;
  std::vector<SampleRing> rings_;  // by kResolutions
  SampleMerger merger_{kMostFlows};
  JobDirectory jobs_;
};

}  // namespace espalier::controller
