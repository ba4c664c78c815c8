#include "collective/synthesis/schedules/schedule.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace espalier::synthesis {
namespace {

Result<void> CheckSize(std::int64_t chunks, std::int64_t sends) {
  if (chunks > kMaxChunks) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the schedule needs {} chunks a shard (at most {} are supported; give "
                            "--chunks)",
                            chunks, kMaxChunks));
  }
  if (sends > kMaxSends) {
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("the schedule has {} sends (at most {} are supported)", sends, kMaxSends));
  }
  return {};
}

}  // namespace

Result<void> CheckCollective(Collective collective) {
  if (collective == Collective::kAllgather || collective == Collective::kReduceScatter ||
      collective == Collective::kAllreduce) {
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("no schedule of steps for {} (choose allgather, reduce-scatter or "
                          "allreduce)",
                          forest::CollectiveName(collective)));
}

Result<Schedule> Refine(Schedule schedule, std::int64_t factor) {
  if (auto fits = CheckSize(
          schedule.chunks > kMaxChunks / factor ? kMaxChunks + 1 : schedule.chunks * factor, 0);
      !fits) {
    return Propagate(fits);
  }
  schedule.chunks *= factor;
  for (Send& send : schedule.sends) {
    send.begin = static_cast<std::int32_t>(send.begin * factor);
    send.end = static_cast<std::int32_t>(send.end * factor);
  }
  return schedule;
}

Schedule Reverse(Schedule schedule) {
  ESPALIER_CHECK(schedule.collective != Collective::kAllreduce);
  const bool gathers = schedule.collective == Collective::kAllgather;
  schedule.collective = gathers ? Collective::kReduceScatter : Collective::kAllgather;
  schedule.reduce_steps = gathers ? schedule.steps : 0;
  for (Send& send : schedule.sends) {
    std::swap(send.from, send.to);
    send.step = schedule.steps - send.step + 1;
  }
  return schedule;
}

Result<Schedule> Concatenate(Schedule reduce_scatter, Schedule allgather) {
  ESPALIER_CHECK(reduce_scatter.node_count == allgather.node_count);
  const std::int64_t common = std::gcd(reduce_scatter.chunks, allgather.chunks);
  const std::int64_t reduce_factor = allgather.chunks / common;
  auto gather = Refine(std::move(allgather), reduce_scatter.chunks / common);
  if (!gather) return gather;
  auto all = Refine(std::move(reduce_scatter), reduce_factor);
  if (!all) return all;
  const auto sends = static_cast<std::int64_t>(all->sends.size() + gather->sends.size());
  if (auto fits = CheckSize(all->chunks, sends); !fits) return Propagate(fits);
  all->collective = Collective::kAllreduce;
  for (Send send : gather->sends) {
    send.step += all->steps;
    all->sends.push_back(send);
  }
  all->steps += gather->steps;
  return all;
}

Schedule Rename(Schedule schedule, std::span<const std::int32_t> names) {
  for (Send& send : schedule.sends) {
    send.source = names[static_cast<std::size_t>(send.source)];
    send.from = names[static_cast<std::size_t>(send.from)];
    send.to = names[static_cast<std::size_t>(send.to)];
  }
  return schedule;
}

}  // namespace espalier::synthesis
