#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "common/base/event_loop.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

// One round of a job's traffic: for a training job, one All-Reduce.
struct JobRound {
  TimePoint ended;
  Duration duration{};
  Duration ideal{};  // without contention in the fabric: set by the slowest NIC or pair of NICs
};

// Records when each job communicates and for how long. A round begins when a flow of the job has
// bytes to send after kGap in which none had. It ends when no flow has bytes to send for kGap;
// shorter pauses, such as those between the steps of a ring, belong to the round. Times are those
// of the agents' reports: exact to their interval (10 ms).
//
// Thread safety: the controller's loop thread. O(1) a change.
class JobRounds {
 public:
  static constexpr Duration kGap = std::chrono::milliseconds(50);
  static constexpr std::size_t kMaxKept = 64;  // rounds of each job

  explicit JobRounds(const fabric::Topology& topology) : topology_(topology) {}

  // The links of a flow's two NICs (none: unknown end), and the rate of the fastest path between
  // them (0: no path, or both on one switch).
  struct Ends {
    std::optional<fabric::DirectedLink> source;
    std::optional<fabric::DirectedLink> destination;
    std::int64_t path_bps = 0;
  };
  // The bytes of a round between two NICs.
  struct Pair {
    std::uint64_t bytes = 0;
    std::int64_t path_bps = 0;
  };
  // A flow's ends, and where its bytes were counted last, which saves looking it up again.
  struct Sender {
    Ends ends;
    Pair* pair = nullptr;  // of this round
    std::uint64_t round = 0;
  };
  // A flow of the job that had nothing to send has bytes to send.
  void Begin(std::uint32_t job, TimePoint now);
  // A flow of the job has sent everything, or has ended.
  void End(std::uint32_t job, TimePoint now);
  // The number will name another job. No flow of this one may have bytes to send.
  void Forget(std::uint32_t job);
  // Adds bytes that a flow with these ends sends in this round.
  void AddBytes(std::uint32_t job, Sender& sender, std::uint64_t bytes);

  // The latest finished rounds, oldest first; when the current round began; how many have finished.
  std::deque<JobRound> Finished(std::uint32_t job, TimePoint now) const;
  std::optional<TimePoint> Begun(std::uint32_t job, TimePoint now) const;
  std::uint64_t Count(std::uint32_t job, TimePoint now) const;

 private:
  struct Job {
    std::uint32_t busy = 0;  // flows that have bytes to send
    std::optional<TimePoint> began;
    TimePoint ended;  // if busy is 0: since when
    // Of flows of which only one end or no path is known, by DirectedLink::Index.
    std::unordered_map<std::size_t, std::uint64_t> nic_bytes;
    std::unordered_map<std::uint64_t, Pair> pairs;  // by PairKey
    std::uint64_t round = 0;                        // identifies the round of `pairs`; 0: none
    std::deque<JobRound> finished;
    std::uint64_t count = 0;
  };
  static std::uint64_t PairKey(const Ends& ends);
  static bool IsOver(const Job& job, TimePoint now);
  JobRound RoundOf(const Job& job) const;
  Job& At(std::uint32_t job);

  const fabric::Topology& topology_;
  std::deque<Job> jobs_;  // which grows without moving its entries, as senders point into them
  std::uint64_t last_round_ = 0;
};

}  // namespace espalier::controller
