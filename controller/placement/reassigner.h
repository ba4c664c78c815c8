#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "controller/placement/load_summary.h"
#include "controller/routing/assigner.h"
#include "controller/routing/rates.h"
#include "controller/settings/options.h"

namespace espalier::controller {

// Assigns all elephants anew, from an empty fabric, by the algorithm of the options. Of assignments
// that are as good the one with fewer bytes in flight to move; where all anew would move more than
// it may, what there is is repaired as far as that goes.
//
// Decides only: of the flows it reads whether they can move and what is in flight. The view may be
// of the fabric as it would be.
// Thread safety: the controller's loop thread.
class Reassigner {
 public:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  Reassigner(const State& state, FabricView& view, const ControllerOptions& options)
      : state_(state), view_(view), options_(options), assigner_(view), rates_(view) {}

  // Paths that lower the maximum load or (at the same load) make the slower jobs faster, by these
  // weights, and move no more bytes than they may; none where nothing is worth moving. All ways of
  // these elephants have their present paths.
  std::optional<Assignment> FindBetter(const Elephants& elephants, const Assignment& present,
                                       std::span<const std::uint32_t> job_weights,
                                       std::int64_t max_moved_bytes = kNoLimit);
  // In flight, of the ways of one elephant that move.
  std::int64_t MovedBytes(const Elephants& elephants, std::size_t index, const Assignment& from,
                          const Assignment& to) const;

 private:
  Assignment AssignFromScratch(const Elephants& elephants,
                               std::span<const std::uint32_t> job_weights,
                               const Assignment& present);
  // What is there, with links above what they need to bear relieved.
  Assignment Repair(const Elephants& elephants, const Assignment& present,
                    std::int64_t max_moved_bytes);
  // The better of these two that moves no more bytes than it may.
  Assignment ChooseFromScratch(const Elephants& elephants,
                               std::span<const std::uint32_t> job_weights,
                               const Assignment& present, std::int64_t max_moved_bytes);
  std::int64_t MovedBytes(const Elephants& elephants, const Assignment& from,
                          const Assignment& to) const;
  // Spines that are alike change places, so that what has most in flight keeps its own.
  void KeepSpines(const Elephants& elephants, const Assignment& present,
                  Assignment& from_scratch) const;
  // The ways of a flow are alike: those whose path it has already keep it.
  static void KeepSubflows(const Assignment& present, Assignment& from_scratch);
  bool IsWorthMoving(const Elephants& elephants, std::span<const std::uint32_t> job_weights,
                     const Assignment& from, const Assignment& to);

  const State& state_;
  FabricView& view_;
  const ControllerOptions& options_;
  Assigner assigner_;
  RatePredictor rates_;
};

}  // namespace espalier::controller
