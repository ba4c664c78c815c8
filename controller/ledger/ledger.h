#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/ledger/burst_watch.h"
#include "controller/ledger/ledger_book.h"
#include "controller/routing/fabric/fabric_copy.h"
#include "controller/settings/options.h"
#include "controller/state/state.h"
#include "controller/store/store.h"

namespace espalier::controller {

// The ledger: for each job, what its observed bursts would have cost by other schemes than the
// present one (Scheme), from watching alone. It steers nothing.
//
// Costs are computed off the loop's thread (ControllerOptions::background), a few bursts at a time,
// within a budget of steps a second (BurstCostModel::StepsOf). Bursts for which there is no time
// are counted as skipped. Jobs take turns.
//
// What could prove it wrong: bursts whose time is not that of the links (the measured time is then
// much longer than that of the links, and changes by the links' part alone), switches that hash
// unevenly, or traffic that no agent reports. What a job gains once it is steered is measured in
// the same way (Placing::kSteered).
//
// The store keeps it, at most kStoreInterval late, so that it survives a restart. Bursts that were
// observed on an earlier topology stay as they were computed then. Thread safety: the controller's
// loop thread; the references must outlive it.
class Ledger {
 public:
  static constexpr std::int64_t kStepsPerSecond = 4'000'000;
  static constexpr std::size_t kMostAtOnce = 8;  // bursts
  static constexpr Duration kStoreInterval = std::chrono::minutes(1);

  Ledger(const State& state, PathLearner& learner, const ControllerOptions& options, Store& store)
      : watch_(state, learner), state_(state), options_(options), store_(store) {}
  ~Ledger() { StoreChanged(); }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Takes over what an earlier controller has stored. Returns how many parts of it cannot be read,
  // which are left out. To be called before Tick.
  std::size_t Restore(const std::vector<StoredBursts>& stored);

  // What agents report goes there.
  BurstWatch& watch() { return watch_; }
  const BurstWatch& watch() const { return watch_; }
  // Takes what has been computed, and begins to compute more. To be called periodically.
  void Tick(TimePoint now);
  const LedgerBook& book() const { return book_; }

 private:
  struct Work;

  void Begin(TimePoint now);
  // Gives the store what has changed since the last call.
  void StoreChanged();

  BurstWatch watch_;
  LedgerBook book_;
  const State& state_;
  const ControllerOptions& options_;
  Store& store_;
  std::shared_ptr<FabricCopy> fabric_;    // only work_ has access to it
  std::shared_ptr<Work> work_;            // that is under way
  std::int64_t steps_ = kStepsPerSecond;  // of the budget; below 0: what was borrowed
  TimePoint last_tick_{};
  TimePoint last_stored_{};
};

}  // namespace espalier::controller
