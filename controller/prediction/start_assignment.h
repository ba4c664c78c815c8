#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/online_assigner.h"

namespace espalier::controller {

// A flow that is expected: from leaf to leaf (as FabricView numbers them), split over `ways`.
struct PredictedStart {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint32_t subflows = 1;
};

// What to do when they start.
struct StartAssignment {
  std::vector<std::int32_t> paths;  // of all ways of all starts in order; kNoPath: none usable
  std::vector<OnlineAssigner::Move> moves;  // live ways that make room: from and to, one each
};

// The assignment that these starts would get on top of what is live now, or (`ending`) on
// top of what will be left when those ways have ended. Tries it and takes all back: `live` carries
// the same paths afterwards as before. So a plan is what OnlineAssigner decides, and as good.
//
// `options` are those of OnlineAssigner::PlaceArrivals; what it moves of expected flows is not
// live. Complexity: twice that of the starts. Deterministic. Thread safety: as OnlineAssigner.
StartAssignment PlanStarts(OnlineAssigner& live, std::span<const PredictedStart> starts,
                           std::span<const SubflowId> ending,
                           const OnlineAssigner::Options& options);

// One way of a flow on a path, mixed to 64 bits. The sum over all ways tells (but for collisions)
// whether a fabric carries the same as when a plan was made for it, whatever the order.
std::uint64_t PathFingerprint(std::uint32_t source, std::uint32_t destination, std::int32_t path,
                              std::size_t subflows);

}  // namespace espalier::controller
