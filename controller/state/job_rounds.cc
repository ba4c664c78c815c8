#include "controller/state/job_rounds.h"

#include <algorithm>

#include "common/base/check.h"

namespace espalier::controller {

JobRounds::Job& JobRounds::At(std::uint32_t job) {
  if (job >= jobs_.size()) jobs_.resize(job + 1);
  return jobs_[job];
}

std::uint64_t JobRounds::PairKey(const Ends& ends) {
  return (std::uint64_t{ends.source->Index()} << 32U) | ends.destination->Index();
}

bool JobRounds::IsOver(const Job& job, TimePoint now) {
  return job.began && job.busy == 0 && now - job.ended >= kGap;
}

JobRound JobRounds::RoundOf(const Job& job) const {
  double longest = 0;
  const auto add = [&](std::uint64_t bytes, std::int64_t bps) {
    longest = std::max(longest, 8 * static_cast<double>(bytes) / static_cast<double>(bps));
  };
  std::unordered_map<std::size_t, std::uint64_t> nic_bytes = job.nic_bytes;
  for (const auto& [key, pair] : job.pairs) {
    add(pair.bytes, pair.path_bps);
    nic_bytes[key >> 32U] += pair.bytes;
    nic_bytes[key & 0xFFFF'FFFF] += pair.bytes;
  }
  for (const auto& [index, bytes] : nic_bytes) {
    add(bytes, topology_.link(fabric::DirectedLink::FromIndex(index).link).rate.value);
  }
  const auto ideal = std::chrono::duration<double>(std::min(longest, 1e9));
  return {job.ended, job.ended - *job.began, std::chrono::duration_cast<Duration>(ideal)};
}

void JobRounds::Begin(std::uint32_t index, TimePoint now) {
  Job& job = At(index);
  if (IsOver(job, now)) {
    job.finished.push_back(RoundOf(job));
    if (job.finished.size() > kMaxKept) job.finished.pop_front();
    ++job.count;
    job.began.reset();
    job.nic_bytes.clear();
    job.pairs.clear();
    job.round = 0;
  }
  if (!job.began) job.began = now;
  ++job.busy;
}

void JobRounds::End(std::uint32_t index, TimePoint now) {
  Job& job = At(index);
  ESPALIER_CHECK(job.busy > 0, "job={}", index);
  if (--job.busy == 0) job.ended = now;
}

void JobRounds::Forget(std::uint32_t index) {
  if (index < jobs_.size()) jobs_[index] = {};
}

void JobRounds::AddBytes(std::uint32_t index, Sender& sender, std::uint64_t bytes) {
  Job& job = At(index);
  if (sender.pair != nullptr && sender.round == job.round) {
    sender.pair->bytes += bytes;
    return;
  }
  const Ends& ends = sender.ends;
  if (!ends.source || !ends.destination || ends.path_bps == 0) {
    for (const auto& end : {ends.source, ends.destination}) {
      if (end) job.nic_bytes[end->Index()] += bytes;
    }
    return;
  }
  if (job.round == 0) job.round = ++last_round_;
  sender.pair = &job.pairs[PairKey(ends)];
  sender.round = job.round;
  sender.pair->bytes += bytes;
  sender.pair->path_bps = ends.path_bps;
}

std::deque<JobRound> JobRounds::Finished(std::uint32_t index, TimePoint now) const {
  if (index >= jobs_.size()) return {};
  std::deque<JobRound> finished = jobs_[index].finished;
  if (IsOver(jobs_[index], now)) finished.push_back(RoundOf(jobs_[index]));
  return finished;
}

std::optional<TimePoint> JobRounds::Begun(std::uint32_t index, TimePoint now) const {
  if (index >= jobs_.size() || IsOver(jobs_[index], now)) return std::nullopt;
  return jobs_[index].began;
}

std::uint64_t JobRounds::Count(std::uint32_t index, TimePoint now) const {
  if (index >= jobs_.size()) return 0;
  return jobs_[index].count + (IsOver(jobs_[index], now) ? 1 : 0);
}

}  // namespace espalier::controller
