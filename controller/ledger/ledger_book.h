#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/base/time/wall_time.h"
#include "controller/ledger/burst_costs.h"
#include "controller/ledger/burst_watch.h"

namespace espalier::controller {

// Bursts of one job, alike in how they were placed, summed up.
struct BurstSums {
  std::uint64_t bursts = 0;     // whose costs were computed
  std::uint64_t skipped = 0;    // others
  std::uint64_t flows = 0;      // of the job, in these bursts
  std::uint64_t crossing = 0;   // of these, those that cross the fabric
  std::uint64_t known = 0;      // of these, those whose path on ECMP was known
  std::uint64_t proven = 0;     // bursts whose optimum is proven
  std::size_t gpus = 0;         // the most of a burst; 0: not known
  double measured_seconds = 0;  // how long the bursts lasted
  double measured_squares = 0;
  struct OfScheme {
    std::uint64_t bursts = 0;  // to which the scheme applies
    BurstCosts::Seconds seconds{};
  };
  std::array<OfScheme, kSchemes> schemes;

  void Add(const BurstSums& other);
};

// What a scheme costs, of means of bursts.
struct SchemeEstimate {
  bool applies = false;      // to all bursts
  double seconds = 0;        // for which links have to send, the mean of the draws
  double burst_seconds = 0;  // what a burst would have taken: as measured, but for the links' part
  double low = 0;            // of the same, by the draws: one in ten is lower (higher)
  double high = 0;
};
SchemeEstimate Estimate(const BurstSums& sums, Scheme scheme);
// The mean duration of the measured bursts, and its standard error (0 for one burst).
double MeanSeconds(const BurstSums& sums);
double StandardError(const BurstSums& sums);

// The ledger's sums, by job and how its flows were placed, in steps of kStep for kReach.
//
// The cost of a burst by the model is the time for which links must send. It counts at most as long
// as the burst has lasted: if the present placing costs more than that by the model, all costs of
// the burst are scaled down.
//
// Memory: kMostEntries of two kilobytes; the oldest make room. Hosts name jobs as they like, so one
// step has kMostOfStep entries at most, and bursts of further jobs are left out. Thread safety: one
// thread.
class LedgerBook {
 public:
  static constexpr std::chrono::minutes kStep{10};
  static constexpr std::chrono::hours kReach{24};
  static constexpr std::size_t kMostEntries = 4'096;
  static constexpr std::size_t kMostOfStep = 256;

  struct Key {
    WallTime begin;  // of the step
    std::string job;
    Placing placing = Placing::kEcmp;
    auto operator<=>(const Key&) const = default;
  };
  using Entries = std::map<Key, BurstSums>;

  void Add(WallTime at, const SeenBurst& burst, const BurstCosts& costs);
  // Takes over what an earlier book has kept, except what is too old by now, and what a clock that
  // was ahead has dated in the future. To be called before Add.
  void Restore(Entries entries, WallTime now);
  // The entries to which was added since the last call, oldest first.
  std::vector<Key> TakeChanged();
  // Oldest first.
  const Entries& entries() const { return entries_; }
  std::uint64_t left_out() const { return left_out_; }  // bursts

 private:
  // Removes the oldest entries beyond kReach before this step, and beyond kMostEntries.
  void Trim(WallTime begin);

  Entries entries_;
  std::set<Key> changed_;
  std::uint64_t left_out_ = 0;
};

}  // namespace espalier::controller
