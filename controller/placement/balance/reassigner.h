#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "controller/placement/loads/load_summary.h"
#include "controller/routing/assigner.h"
#include "controller/routing/rates.h"
#include "controller/settings/options.h"

namespace espalier::controller {

// Assigns all elephants from scratch, by the algorithm of the options. Of equally good assignments,
// the one that moves fewer bytes in flight wins. If an assignment from scratch would move too many
// bytes, the present one is repaired as far as the limit allows.
//
// Only computes: it reads from the flows whether they can move and their bytes in flight. The view
// may show a hypothetical fabric.
// Thread safety: the controller's loop thread.
class Reassigner {
 public:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  Reassigner(const State& state, FabricView& view, const ControllerOptions& options)
      : state_(state), view_(view), options_(options), assigner_(view), rates_(view) {}

  // Returns paths that lower the maximum load or, at the same load, make the slower jobs faster by
  // these weights, and move at most `max_moved_bytes`; none if no move is worth it. All subflows of
  // these elephants must have a path in `present`.
  std::optional<Assignment> FindBetter(const Elephants& elephants, const Assignment& present,
                                       std::span<const std::uint32_t> job_weights,
                                       std::int64_t max_moved_bytes = kNoLimit);
  // Bytes in flight of the subflows of one elephant that move.
  std::int64_t MovedBytes(const Elephants& elephants, std::size_t index, const Assignment& from,
                          const Assignment& to) const;

 private:
  Assignment AssignFromScratch(const Elephants& elephants,
                               std::span<const std::uint32_t> job_weights,
                               const Assignment& present);
  // The present assignment with overloaded links relieved (OnlineAssigner::Rebalance).
  Assignment Repair(const Elephants& elephants, const Assignment& present,
                    std::int64_t max_moved_bytes);
  // The better of AssignFromScratch and Repair that keeps to the limit of moved bytes.
  Assignment ChooseFromScratch(const Elephants& elephants,
                               std::span<const std::uint32_t> job_weights,
                               const Assignment& present, std::int64_t max_moved_bytes);
  std::int64_t MovedBytes(const Elephants& elephants, const Assignment& from,
                          const Assignment& to) const;
  // Relabels interchangeable spines in `from_scratch`, so that most bytes in flight stay in place.
  void KeepSpines(const Elephants& elephants, const Assignment& present,
                  Assignment& from_scratch) const;
  // Permutes each flow's subflows, with their shares, so that as many as possible keep their path.
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
