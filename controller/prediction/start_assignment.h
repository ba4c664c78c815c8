#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/online/online_assigner.h"

namespace espalier::controller {

// A predicted flow between two leaves (as FabricView numbers them), with this many subflows.
struct PredictedStart {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint32_t subflows = 1;
};

// Paths and moves for a set of starts.
struct StartAssignment {
  std::vector<std::int32_t> paths;  // of all subflows of all starts in order; kNoPath: none usable
  std::vector<OnlineAssigner::Move> moves;  // subflows that make room; each occurs once
};

// Returns the assignment that these starts would get on top of the present paths, or, with
// `ending`, on top of those that remain when these subflows have ended. Places the starts by
// OnlineAssigner and undoes everything: `assigner` has the same paths afterwards. The result is
// thus as good as an assignment on arrival.
//
// `options` are those of OnlineAssigner::PlaceArrivals; the predicted flows count as not in
// progress. Complexity: twice that of placing the starts. Deterministic. Thread safety: as
// OnlineAssigner.
StartAssignment AssignPredictedStarts(OnlineAssigner& assigner,
                                      std::span<const PredictedStart> starts,
                                      std::span<const SubflowId> ending,
                                      const OnlineAssigner::Options& options);

// A 64-bit hash of one subflow, with this part of its flow, on a path. Except for collisions, the
// sum over all subflows tells whether a fabric has the same paths as when a plan was made, in
// whatever order they came.
std::uint64_t PathFingerprint(std::uint32_t source, std::uint32_t destination, std::int32_t path,
                              std::int64_t share);

}  // namespace espalier::controller
