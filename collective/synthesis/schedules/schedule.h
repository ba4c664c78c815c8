#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/forest/model/tree_schedule.h"
#include "common/base/result.h"

namespace espalier::synthesis {

using forest::Collective;

// The tuple ((v, C), (u, w), t) of the dissertation (section 3.3.1): in step t, u sends to w the
// part C of the shard of v. In a reduction, w adds what it receives to its own part at once, and v
// is the node that gets the sum.
struct Send {
  std::int32_t source = 0;  // v
  std::int32_t from = 0;    // u
  std::int32_t to = 0;      // w
  std::int32_t step = 1;    // t, from 1 on
  std::int32_t begin = 0;   // C: the interval [begin / chunks, end / chunks) of the shard
  std::int32_t end = 1;
  bool operator==(const Send&) const = default;
};

constexpr std::int64_t kMaxChunks = std::int64_t{1} << 30;  // of one shard
constexpr std::int64_t kMaxSends = std::int64_t{1} << 26;   // of one schedule
constexpr std::int64_t kMaxScheduleSteps = std::int64_t{1} << 20;

// A collective in synchronous steps: what arrives in one step can be sent in the next. All bounds
// of intervals are multiples of 1 / chunks, so that sizes are exact.
//
// The steps 1 ... reduce_steps reduce, the later ones gather. Allgather has none of the former,
// reduce-scatter none of the latter, allreduce has both.
struct Schedule {
  // kAllgather, kReduceScatter or kAllreduce.
  Collective collective = Collective::kAllgather;
  std::int32_t node_count = 0;
  std::int64_t chunks = 1;  // P: equal parts of each shard
  std::int32_t steps = 0;
  std::int32_t reduce_steps = 0;
  std::vector<Send> sends;  // in any order
};

// Errors: kInvalidArgument for a collective that schedules of steps do not serve.
Result<void> CheckCollective(Collective collective);

// Returns the schedule with `factor` times as many chunks, and the same intervals.
// Errors: kResourceExhausted above kMaxChunks.
Result<Schedule> Refine(Schedule schedule, std::int64_t factor);

// The reverse schedule (Definition 5), for the transpose of the network: an allgather becomes a
// reduce-scatter and the other way round, at the same cost (Theorem 1).
// Precondition: not an allreduce.
Schedule Reverse(Schedule schedule);

// The reduce-scatter followed by the allgather: an allreduce.
// Precondition: both are of the same nodes.
// Errors: kResourceExhausted for too many chunks or sends.
Result<Schedule> Concatenate(Schedule reduce_scatter, Schedule allgather);

// Renames node n to names[n], which is a permutation (Definition 7).
Schedule Rename(Schedule schedule, std::span<const std::int32_t> names);

}  // namespace espalier::synthesis
