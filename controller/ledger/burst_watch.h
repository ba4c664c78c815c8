#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/ledger/burst_costs.h"
#include "controller/paths/path_learner.h"
#include "controller/state/state.h"

namespace espalier::controller {

// How the flows of a burst that cross the fabric were placed.
enum class Placing : std::uint8_t { kEcmp, kMixed, kSteered };

std::string_view PlacingName(Placing placing);  // "ECMP", "MIXED", "STEERED"
std::optional<Placing> FindPlacing(std::string_view name);

// A burst of a job that is over, with all that its costs need.
struct SeenBurst {
  std::string job;
  Duration duration{};
  std::vector<BurstFlow> flows;  // the job's, then what others sent meanwhile
  std::size_t own = 0;
  Placing placing = Placing::kEcmp;
  std::size_t gpus = 0;       // compute nodes of the job's hosts; 0: the topology has none of them
  std::uint64_t skipped = 0;  // bursts of the job that are over and were not taken
};

// Watches what the flows of each job send together. A burst of a job begins when one of its flows
// has bytes to send after kBurstGap in which none had, and ends when none has for kBurstGap, or
// after kLongest, when the next one begins. (JobRounds tells groups of flows of one job apart. Here
// they are one, as they share links.)
//
// A burst is complete if its bytes are announced while it lasts. Of a transfer that is longer than
// kLongest, all bytes count to its first part.
//
// Bounds, as reports are claims: a burst of more than kMostFlows flows, or beyond kMostKept flows
// of all jobs together, is only counted. Cost: O(1) for each change of a flow, O(flows) to take a
// burst, O(kMostVisited) for each search. Thread safety: the controller's loop thread; the
// references must outlive it.
class BurstWatch {
 public:
  static constexpr std::size_t kMostFlows = 4'096;
  static constexpr std::size_t kMostKept = 262'144;
  static constexpr std::size_t kMostVisited = 1'024;  // jobs, in one search
  static constexpr Duration kLongest = std::chrono::minutes(1);
  static constexpr Duration kPast = std::chrono::seconds(10);  // for how long bursts are kept

  BurstWatch(const State& state, PathLearner& learner) : state_(state), learner_(learner) {}

  // These open flows have become busy or idle, or have more to send.
  void HandleChanges(std::span<const MessageChange> changes);
  // Before the flow is closed, or gets another job; and after it has got it.
  void Leave(FlowSlot slot, TimePoint now);
  void Join(FlowSlot slot, TimePoint now);
  // The number will name another job. No flow of this one is open.
  void ForgetJob(std::uint32_t job);

  // The next burst that is over and was not taken, if there is one among the next jobs. Of several
  // bursts of a job, only the last one. Jobs take turns.
  std::optional<SeenBurst> TakeNext(TimePoint now);

  std::uint64_t finished() const { return finished_; }  // bursts, of all jobs
  std::size_t kept() const { return kept_; }            // flows

 private:
  struct Part {
    FlowSlot slot;
    std::uint64_t bytes = 0;
    std::int32_t closed = -1;  // index into Burst::closed, once the flow is closed
  };
  // A flow as it was when it closed.
  struct Described {
    BurstFlow flow;
    bool is_steered = false;
    bool is_known = false;  // its ends are
    fabric::NodeId source;  // NICs
    fabric::NodeId destination;
  };
  struct Burst {
    std::uint64_t number = 0;  // 0: none
    TimePoint began;
    TimePoint ended;
    std::vector<Part> parts;
    std::vector<Described> closed;
    bool is_complete = true;
  };
  struct Job {
    std::uint32_t busy = 0;
    Burst present;
    Burst last;
    bool is_last_new = false;
    std::uint64_t skipped = 0;
  };
  // Where a flow's bytes are counted.
  struct Place {
    std::uint64_t burst = 0;
    std::uint32_t part = 0;
  };
  struct Sender {
    Place present;
    Place previous;
    bool is_busy = false;
  };

  void Begin(FlowSlot slot, TimePoint at);
  void End(FlowSlot slot, TimePoint at);
  void AddBytes(FlowSlot slot, std::uint64_t bytes);
  void Finish(Job& job);
  void Drop(Burst& burst);
  void KeepClosed(Burst& burst, const Place& place, FlowSlot slot);
  // Ends a burst that is over or too long, and drops an old one.
  void Update(std::uint32_t index, TimePoint now);
  Job& JobOf(FlowSlot slot);

  // The path of its own port, as it is known or predicted; kNoPath: it is not.
  std::int32_t OwnPathOf(const Flow& flow) const;
  Described Describe(const Flow& flow) const;
  Described DescribePart(const Burst& burst, const Part& part) const;
  // False: they are too many.
  bool AddOthers(std::uint32_t own, SeenBurst& seen) const;
  std::optional<SeenBurst> Take(std::uint32_t index);
  std::size_t GpusOf(const std::vector<fabric::NodeId>& nics);

  const State& state_;
  PathLearner& learner_;
  std::vector<Sender> senders_;  // by slot
  std::deque<Job> jobs_;         // by the job's number
  std::uint64_t numbers_ = 0;
  std::uint64_t finished_ = 0;
  std::size_t kept_ = 0;                                              // parts of all bursts
  std::uint32_t next_ = 0;                                            // job to visit
  std::optional<std::unordered_map<std::string, std::size_t>> gpus_;  // by host
};

// Tells flows apart in every burst: by agent, NICs, and the port or queue pair that it opened.
std::uint64_t BurstKeyOf(const Flow& flow);

}  // namespace espalier::controller
