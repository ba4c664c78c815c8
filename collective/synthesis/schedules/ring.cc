#include "collective/synthesis/schedules/ring.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collective/synthesis/schedules/schedule.h"

namespace espalier::synthesis {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

tl::unexpected<Error> NoRing(std::string what) {
  return Fail(ErrorCode::kFailedPrecondition,
              "the network is not a ring: " + std::move(what) + " (use `schedule make bfb`)");
}

// Returns the nodes in the order of the ring.
Result<std::vector<std::int32_t>> FindRing(const Digraph& graph) {
  const std::int64_t capacity = graph.arcs().empty() ? 0 : graph.arcs().front().capacity;
  if (std::ranges::any_of(graph.arcs(), [&](const Arc& arc) { return arc.capacity != capacity; })) {
    return NoRing("its links differ in bandwidth");
  }
  const bool both = graph.IsBidirectional() && graph.node_count() > 2;
  std::vector<std::int32_t> ring{0};
  while (static_cast<std::int32_t>(ring.size()) <= graph.node_count()) {
    const std::int32_t node = ring.back();
    const auto [begin, end] = graph.Into(node);
    if (end - begin != (both ? 2 : 1)) return NoRing("a node has another number of neighbours");
    // Walks against the links of a ring in one direction.
    std::int32_t next = graph.arcs()[At(begin)].tail;
    if (both && ring.size() > 1 && next == ring[ring.size() - 2]) {
      next = graph.arcs()[At(begin) + 1].tail;
    }
    if (next == 0) break;
    ring.push_back(next);
  }
  if (static_cast<std::int32_t>(ring.size()) != graph.node_count()) {
    return NoRing("its links form more than one ring");
  }
  std::reverse(ring.begin(), ring.end());
  return ring;
}

// The allgather over the links between successive nodes of the ring, of one part of each shard.
void GoRound(const std::vector<std::int32_t>& ring, std::int32_t begin, Schedule& schedule) {
  const auto count = static_cast<std::int32_t>(ring.size());
  for (std::int32_t source = 0; source < count; ++source) {
    for (std::int32_t step = 1; step < count; ++step) {
      schedule.sends.push_back({ring[At(source)], ring[At((source + step - 1) % count)],
                                ring[At((source + step) % count)], step, begin, begin + 1});
    }
  }
}

}  // namespace

Result<Schedule> MakeRingSchedule(const Digraph& graph, Collective collective) {
  if (graph.node_count() < 2) {
    return Fail(ErrorCode::kFailedPrecondition, "a schedule needs at least two nodes");
  }
  if (auto served = CheckCollective(collective); !served) return Propagate(served);
  auto ring = FindRing(graph);
  if (!ring) return Propagate(ring);
  const bool both = graph.IsBidirectional() && graph.node_count() > 2;
  const auto steps = static_cast<std::int32_t>(ring->size()) - 1;
  Schedule allgather{.collective = Collective::kAllgather,
                     .node_count = graph.node_count(),
                     .chunks = both ? 2 : 1,
                     .steps = steps,
                     .reduce_steps = 0,
                     .sends = {}};
  const auto links = static_cast<std::int64_t>(ring->size()) * (both ? 2 : 1);
  if (links * steps > kMaxSends) {
    return Fail(ErrorCode::kResourceExhausted, "the ring is too long for a schedule");
  }
  // The allgather of the transpose, whose reverse is the reduce-scatter.
  Schedule transposed = allgather;
  GoRound(*ring, 0, both ? transposed : allgather);
  std::reverse(ring->begin(), ring->end());
  GoRound(*ring, both ? 1 : 0, transposed);
  if (both) allgather = transposed;
  if (collective == Collective::kAllgather) return allgather;
  Schedule reduce_scatter = Reverse(std::move(transposed));
  if (collective == Collective::kReduceScatter) return reduce_scatter;
  return Concatenate(std::move(reduce_scatter), std::move(allgather));
}

}  // namespace espalier::synthesis
