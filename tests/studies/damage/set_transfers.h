#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/fabric/topology.h"
#include "controller/offline/simulation/fluid_network.h"
#include "controller/offline/simulation/simulator.h"

namespace espalier::offline {

// How the bytes of a flow are dealt out to the paths of its set.
enum class Dealing : std::uint8_t {
  kStatic,      // each path has its share of them; the flow ends with its last path
  kByProgress,  // all paths take from one pool, as they progress; the flow ends with the pool
};

// A path of a flow's set.
struct SetPath {
  std::vector<std::uint32_t> links;  // DirectedLink::Index() between switches; none within one
  double share = 1;                  // of the flow; those of a set add up to one
  bool operator==(const SetPath&) const = default;
};

// Simulates flows over sets of paths as fluids. What flows over each path has a rate of its own;
// these rates are max-min fair at every moment, weighted by the shares. Links can fail, and paths
// can be exchanged in the middle of a transfer.
//
// Call AdvanceTo, then make the changes that happen at this time, then call Settle. Times are in
// nanoseconds. Thread safety: one thread.
class SetTransfers {
 public:
  // Both must outlive it.
  SetTransfers(const fabric::Topology& topology, const Workload& workload, Dealing dealing);

  // Goes to this time, which is not after NextEvent, and returns the flows that have ended by then.
  std::vector<std::uint32_t> AdvanceTo(std::int64_t now);

  // Gives a flow this set. If it sends, the set must have as many paths as before; what was dealt
  // out to a path goes on over the one in its place.
  void SetPaths(std::uint32_t flow, std::span<const SetPath> paths);
  // Lets a flow that does not send begin to send this much (> 0) over its set.
  void Start(std::uint32_t flow, double bits);
  // From now on, this link carries nothing in either direction.
  void FailLink(fabric::LinkId link);
  // Computes the rates that apply from now on.
  void Settle();

  // When the next flow or path ends; none if nothing moves any more.
  std::optional<std::int64_t> NextEvent();
  std::int64_t now() const { return now_; }
  // What a flow has sent since the beginning, and all flows together; of flows with static shares,
  // up to the time of the last AdvanceTo, too.
  double SentBy(std::uint32_t flow) const { return flows_[flow].sent; }
  double sent_bits() const { return sent_bits_; }

 private:
  struct Part {
    SetPath path;
    double left = 0;  // dealt out to it statically, while it has no transfer
    std::optional<FluidNetwork::Transfer> transfer;
  };
  struct Flow {
    std::vector<Part> parts;
    bool is_sending = false;
    std::size_t open_parts = 0;  // dealt out statically and not sent
    double left = 0;             // in the pool
    double rate = 0;
    double sent = 0;
    std::optional<std::int64_t> end;  // of the pool
  };

  void CountSent(double nanoseconds);
  void EndPart(FluidNetwork::Transfer transfer, std::vector<std::uint32_t>& ended);
  void EndFlow(Flow& flow);
  // Starts to send over a path, if nothing is in the way.
  void Activate(std::uint32_t flow, std::uint32_t part);
  // Stops, and keeps what is left.
  void Deactivate(Part& part);
  bool HasFailed(const SetPath& path) const;

  const Workload& workload_;
  const Dealing dealing_;
  FluidNetwork network_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> sending_;                          // ascending
  std::vector<std::pair<std::uint32_t, std::uint32_t>> owner_;  // flow and part, by transfer
  std::vector<bool> failed_;                                    // by directed link
  std::int64_t now_ = 0;
  double sent_bits_ = 0;
};

// Sends rounds of the flows of all jobs: the next round of a job begins when all its flows have
// sent their part of this one.
struct TransferRun {
  double bits = 0;  // of a flow, in all rounds
  int rounds = 1;
  // Changes at times, in their order. A change may add another one at a later time.
  struct Changes {
    struct Change {
      std::int64_t time = 0;
      std::function<void()> make;
    };
    std::vector<Change> all;  // ascending by time
    void Add(std::int64_t time, std::function<void()> make);
  };
  std::function<bool()> is_cancelled = [] { return false; };
};
struct TransferOutcome {
  // By flow and by job; none: it never ends.
  std::vector<std::optional<std::int64_t>> flow_ends;
  std::vector<std::optional<std::int64_t>> job_ends;

  std::int64_t unfinished() const;  // flows
  // Of the flows that end.
  std::int64_t slowest() const;
};
// The paths of all flows must be set. Ends when all jobs have ended, nothing moves and no change is
// left, or it is cancelled.
TransferOutcome RunTransfers(SetTransfers& transfers, const Workload& workload,
                             const TransferRun& run, TransferRun::Changes& changes);

}  // namespace espalier::offline
