#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/program/mscclpp/knowledge.h"
#include "collective/program/mscclpp/plan.h"
#include "collective/program/verifier/structure.h"

namespace espalier::program {

// A thread block while its plan runs.
struct PlanBlock {
  std::int32_t rank = 0;
  std::int32_t number = 0;
  const std::vector<PlanOperation>* operations = nullptr;
  std::size_t done = 0;
  std::size_t waited = 0;  // channels or semaphores of the present operation that it has
  bool is_at_barrier = false;
  std::int32_t events = 0;
  Knowledge known;     // by all its threads
  Knowledge received;  // by some of them, since they met
  // By the first thread, which handles the first channel or semaphore of each operation.
  Knowledge first_received;

  const PlanOperation& next() const { return (*operations)[done]; }
  bool has_ended() const { return done == operations->size(); }
};

// What the blocks of all ranks know of one another while a plan runs: blocks, channels, semaphores
// and barriers. Blocks are numbered over all ranks and are the first actors; then come the callers
// of ranks and the port channels.
class PlanSync {
 public:
  using Shared = std::shared_ptr<const Knowledge>;

  explicit PlanSync(const ExecutionPlan& plan);
  // The entries of all clocks that this takes.
  static std::int64_t CountClocks(const ExecutionPlan& plan);

  std::size_t block_count() const { return blocks_.size(); }
  PlanBlock& block(std::int32_t id) { return blocks_[static_cast<std::size_t>(id)]; }
  std::int32_t actor_count() const { return actors_; }

  // The rank's blocks, from the first on.
  std::int32_t first_block(std::int32_t rank) const;
  std::int32_t blocks_of(std::int32_t rank) const;
  int run_of(std::int32_t rank) const;
  bool HasEnded(std::int32_t rank) const;  // all blocks of the present run
  Event Caller(std::int32_t rank) const;   // at the start of the present run
  // Starts the first run, for which all ranks' callers are ready.
  Knowledge StartFirst();
  // Ends the run of a rank: what its caller then knows. StartNext begins another one.
  Knowledge EndRun(std::int32_t rank);
  void StartNext(std::int32_t rank, Knowledge known);

  // Performs an operation other than kTransfer, the next one of a block; returns whether it could.
  bool Perform(std::int32_t id, const PlanOperation& operation);
  Event NextEvent(std::int32_t id);
  // As NextEvent, for a transfer; `known` is extended where a port channel performs it.
  Event NextTransfer(std::int32_t id, const PlanTransfer& transfer, Knowledge& known);

  std::string Describe(const Event& event) const;
  std::string DescribeWait(const PlanBlock& block) const;

  // Ranks whose blocks may be able to go on, the work done, and a race: since they were fetched.
  std::vector<std::int32_t> FetchWoken() { return std::exchange(woken_, {}); }
  std::int64_t FetchCost() { return std::exchange(cost_, 0); }
  const std::optional<Violation>& violation() const { return violation_; }

 private:
  struct Signal {
    Shared knowledge;
    bool is_relaxed = false;
  };
  // One end of a channel: what arrives there, and who used it last.
  struct ChannelEnd {
    std::deque<Signal> arrived;
    Event signalled;
    Event waited;
    std::int32_t actor = -1;  // of a port channel
    std::int32_t transfers = 0;
  };
  struct Release {
    std::int32_t block = 0;
    std::int32_t index = 0;  // among those of its block
    Shared knowledge;
  };
  struct Semaphore {
    std::int64_t value = 0;
    std::int64_t acquired = 0;
    Event last_acquire;
    std::vector<Release> releases;
    std::map<std::int32_t, std::int32_t> total;  // releases in a run, by block
    std::int64_t all = 0;                        // of all blocks
  };
  struct Barrier {
    std::vector<std::int32_t> users;  // blocks
    std::size_t arrived = 0;
  };
  struct Rank {
    int run = 0;
    std::int32_t first_block = 0;
    std::int32_t blocks = 0;
    std::int32_t caller = 0;  // actor
    Shared start;             // what every block knows when the run starts
    std::vector<ChannelEnd> channels;
    std::vector<Semaphore> semaphores;
    std::map<std::int32_t, Barrier> barriers;
  };

  Rank& RankOf(std::int32_t id);
  void CountOperations(std::int32_t id);
  void StartRun(std::int32_t rank, Shared start);
  void Meet(std::int32_t id);
  bool PassBarrier(std::int32_t id, const PlanOperation& operation);
  void Send(std::int32_t id, const PlanOperation& operation, std::size_t position);
  bool Await(std::int32_t id, const PlanOperation& operation);
  void Flush(std::int32_t id, const PlanOperation& operation);
  bool Acquire(std::int32_t id, const PlanOperation& operation);
  void ReleaseOne(std::int32_t id, const PlanOperation& operation, std::size_t position);
  // What the thread at a position of an operation's list knows, and what it receives.
  Knowledge KnownAt(std::int32_t id, std::size_t position) const;
  void Receive(std::int32_t id, std::size_t position, const Knowledge& known, bool only_order);
  bool CheckAlone(std::int32_t id, const Event& last, std::string_view what,
                  const std::string& where);

  const ExecutionPlan& plan_;
  std::int32_t actors_ = 0;
  std::vector<PlanBlock> blocks_;
  std::vector<Rank> ranks_;
  std::vector<std::int32_t> woken_;
  std::int64_t cost_ = 0;
  std::optional<Violation> violation_;
};

}  // namespace espalier::program
