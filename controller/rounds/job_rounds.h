#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/rounds/sender_groups.h"

namespace espalier::controller {

// One round of a job's traffic: for a training job, one All-Reduce.
struct JobRound {
  TimePoint ended;
  Duration duration{};
  // What the round would take if the job had the fabric for itself: the greatest time that a NIC, a
  // flow, or what a leaf sends or receives over its links to other switches needs for its bytes.
  Duration ideal{};
};

// Records when each job communicates and for how long, for each of its groups: the flows that send
// together (SenderGroups), such as those of one ring. A round begins when a flow of the group has
// bytes to send after kGap in which none had. It ends when no flow has bytes to send for kGap;
// shorter pauses, such as those between the steps of a ring, belong to the round. Times are those
// of the agents' reports: exact to their interval (10 ms).
//
// The ideal counts what the job's other groups send meanwhile, as they share NICs and links between
// switches even if the job is alone.
//
// Limits: until flows of one NIC are known to be out of step, they count as one group. Rounds of
// such a group melt into one another; they are left out as soon as it is known, and so is one whose
// ideal is a multiple of the usual one. Flows outside all groups count in no round.
//
// Thread safety: the controller's loop thread. O(1) a change, beside what SenderGroups needs;
// O(groups x leaves + pairs) at the end of a round.
class JobRounds {
 public:
  static constexpr Duration kGap = kBurstGap;
  static constexpr std::size_t kMaxKept = 64;  // rounds of each group
  static constexpr Duration kPast = std::chrono::minutes(1);

  explicit JobRounds(const fabric::Topology& topology) : topology_(topology) {}

  // The links of a flow's two NICs (none: unknown end; the first of several uplinks), and the rate
  // of the fastest path between them, times its subflows (0: no path, or both on one switch).
  struct Ends {
    std::optional<fabric::DirectedLink> source;
    std::optional<fabric::DirectedLink> destination;
    std::int64_t path_bps = 0;
  };
  // The bytes of a round between two NICs.
  struct Pair {
    std::uint64_t bytes = 0;
    std::uint64_t largest = 0;  // of one flow
    std::uint32_t flows = 0;
    std::int64_t path_bps = 0;  // of one flow
  };
  // A flow's ends, its group, and where its bytes were counted last, which saves looking it up
  // again.
  struct Sender {
    Ends ends;
    SenderGroups::Member member;
    Pair* pair = nullptr;  // of this round
    std::uint64_t round = 0;
    std::uint64_t bytes = 0;  // in this round
  };
  // Finds the group of a flow of this job. To be called before all others, and again if the flow
  // gets another job.
  void Join(std::uint32_t job, Sender& sender);
  // The flow, which had nothing to send, has bytes to send.
  void Begin(std::uint32_t job, Sender& sender, TimePoint now);
  // The flow has sent everything, or has ended.
  void End(std::uint32_t job, Sender& sender, TimePoint now);
  // The flow, which has nothing to send, is closed or gets another job.
  void Leave(std::uint32_t job, Sender& sender);
  // The number will name another job. No flow of this one may have bytes to send.
  void Forget(std::uint32_t job);
  // Adds bytes that the flow sends in this round.
  void AddBytes(std::uint32_t job, Sender& sender, std::uint64_t bytes);

  // The latest finished rounds of the job's slowest group by the median, oldest first, without
  // those that are several in one (groups that have been silent for kPast while others were not are
  // left out); how many the job's groups have finished in all; when the earliest present round
  // began.
  std::deque<JobRound> Finished(std::uint32_t job, TimePoint now) const;
  std::uint64_t Count(std::uint32_t job, TimePoint now) const;
  std::optional<TimePoint> Begun(std::uint32_t job, TimePoint now) const;
  // How many groups have finished a round.
  std::size_t Groups(std::uint32_t job, TimePoint now) const;

 private:
  // What NICs, and the links of leaves to other switches, carried in a round (NicKey, LeafKey).
  using SharedBytes = std::unordered_map<std::uint64_t, std::uint64_t>;
  struct Group {
    std::uint32_t busy = 0;  // flows that have bytes to send
    std::optional<TimePoint> began;
    TimePoint ended;  // if busy is 0: since when
    // Of flows of which only one end or no path is known, by DirectedLink::Index.
    std::unordered_map<std::size_t, std::uint64_t> nic_bytes;
    std::unordered_map<std::uint64_t, Pair> pairs;  // by PairKey
    std::uint64_t round = 0;                        // identifies the round of `pairs`; 0: none
    std::deque<JobRound> finished;
    bool is_mixed = false;  // the present round, with one of flows that are in another group
    // The round before the present one.
    TimePoint last_began{};
    TimePoint last_ended{};
    SharedBytes last_bytes;
  };
  struct Job {
    SenderGroups senders;
    std::deque<Group> groups;        // by number
    std::uint64_t count = 0;         // rounds that have finished
    std::uint32_t busy_outside = 0;  // flows that have bytes to send, but no group
    TimePoint outside_began{};       // since when
  };
  static std::uint64_t PairKey(const Ends& ends);
  static bool IsOver(const Group& group, TimePoint now);
  static Group* GroupOf(Job& job, const Sender& sender);
  const Group* Leading(const Job& job, TimePoint now) const;
  void Merge(Job& job, const SenderGroups::Merged& merged);
  void Finish(Job& job, Group& group);
  SharedBytes BytesOf(const Group& group) const;
  double SecondsOfShared(const Job& job, const Group& group) const;
  double SecondsOfWholeFlows(const Group& group) const;
  std::int64_t UplinkBps(fabric::NodeId leaf) const;
  // What a NIC sends or receives at most, over all its uplinks.
  std::int64_t NicBps(fabric::DirectedLink link) const;
  // Whose uplinks the traffic of a NIC shares with others: its leaf, or itself if it has several.
  fabric::NodeId ShareOf(fabric::DirectedLink link, bool sends) const;
  JobRound RoundOf(const Job& job, const Group& group) const;
  std::deque<JobRound> RoundsOf(const Job& job, const Group& group, TimePoint now) const;
  Job& At(std::uint32_t job);

  const fabric::Topology& topology_;
  std::deque<Job> jobs_;  // which grows without moving its entries, as senders point into them
  std::uint64_t last_round_ = 0;
};

}  // namespace espalier::controller
