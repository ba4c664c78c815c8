#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "controller/routing/live_paths.h"

namespace espalier::controller {

// A flow that is expected: from leaf to leaf (as FabricView numbers them), split over `ways`.
struct ExpectedStart {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint32_t ways = 1;
};

// What to do when they start.
struct StartPlan {
  std::vector<std::int32_t> paths;     // of all ways of all starts in order; kNoPath: none usable
  std::vector<LivePaths::Move> moves;  // live ways that make room: from and to, one each
};

// The assignment that these starts would get on top of what is live now, or (`ending`) on
// top of what will be left when those ways have ended. Tries it and takes all back: `live` carries
// the same paths afterwards as before. So a plan is what LivePaths decides, and as good.
//
// `options` are those of LivePaths::StartAll; what it moves of expected flows is not live.
// Complexity: twice that of the starts. Deterministic. Thread safety: as LivePaths.
StartPlan PlanStarts(LivePaths& live, std::span<const ExpectedStart> starts,
                     std::span<const LivePaths::Way> ending, const LivePaths::Options& options);

// One way of a flow on a path, mixed to 64 bits. The sum over all ways tells (but for collisions)
// whether a fabric carries the same as when a plan was made for it, whatever the order.
std::uint64_t PathFingerprint(std::uint32_t source, std::uint32_t destination, std::int32_t path,
                              std::size_t ways);

}  // namespace espalier::controller
