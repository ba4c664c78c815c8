#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/event_loop.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

// One round of a job's traffic: for a training job, one All-Reduce.
struct JobRound {
  TimePoint ended;
  Duration duration{};
  Duration ideal{};  // on a fabric without contention: of the NIC, or the pair, with most to carry
};

// When each job communicates and for how long, from what its flows have to send. A round begins
// when a flow of the job has something to send and none had for kGap, and ends when the last one
// has nothing any more; a shorter pause (between the steps of a ring, say) is part of it. Times are
// those of the agents' reports: exact to their interval (10 ms).
//
// Thread safety: the controller's loop thread. O(1) a change.
class JobRounds {
 public:
  static constexpr Duration kGap = std::chrono::milliseconds(50);
  static constexpr std::size_t kMaxKept = 64;  // of each job

  explicit JobRounds(const fabric::Topology& topology) : topology_(topology) {}

  // Where the bytes of a flow cross its NICs (none where an end is unknown), and the rate of the
  // fastest path between them (0: none, or both on one switch).
  struct Ends {
    std::optional<fabric::DirectedLink> source;
    std::optional<fabric::DirectedLink> destination;
    std::int64_t path_bps = 0;
  };
  // A flow of the job that had nothing to send has something now.
  void Begin(std::uint32_t job, TimePoint now);
  // It has nothing to send any more, or has ended.
  void End(std::uint32_t job, TimePoint now);
  // The number stands for another job from now on; none of its flows has anything to send.
  void Forget(std::uint32_t job);
  // So much more is to be sent in this round.
  void AddBytes(std::uint32_t job, const Ends& ends, std::uint64_t bytes);

  // The latest finished rounds, oldest first, and the one at hand (nothing since its beginning).
  std::deque<JobRound> Finished(std::uint32_t job, TimePoint now) const;
  std::optional<TimePoint> Begun(std::uint32_t job, TimePoint now) const;
  std::uint64_t Count(std::uint32_t job, TimePoint now) const;

 private:
  struct Job {
    std::uint32_t busy = 0;  // flows that have something to send
    std::optional<TimePoint> began;
    TimePoint ended;                                           // where busy is 0: since when
    std::unordered_map<std::size_t, std::uint64_t> nic_bytes;  // by DirectedLink::Index
    struct Pair {
      std::uint64_t bytes = 0;
      std::int64_t path_bps = 0;
    };
    std::unordered_map<std::uint64_t, Pair> pairs;  // by their two directions: PairKey
    std::deque<JobRound> finished;
    std::uint64_t count = 0;
  };
  static std::uint64_t PairKey(const Ends& ends);
  static bool IsOver(const Job& job, TimePoint now);
  JobRound RoundOf(const Job& job) const;
  Job& At(std::uint32_t job);

  const fabric::Topology& topology_;
  std::vector<Job> jobs_;
};

}  // namespace espalier::controller
