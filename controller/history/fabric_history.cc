#include "controller/history/fabric_history.h"

#include <algorithm>
#include <numeric>

namespace espalier::controller {
namespace {

// The begin of the interval that holds a time.
TimePoint FloorTo(TimePoint time, Duration step) { return time - time.time_since_epoch() % step; }

// The index of the first sample that begins at `time` or later.
std::size_t FirstFrom(const SampleRing& ring, TimePoint time) {
  std::size_t low = 0;
  std::size_t high = ring.size();
  while (low < high) {
    const std::size_t middle = std::midpoint(low, high);
    if (ring.At(middle).begin < time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

FabricHistory::FabricHistory(std::size_t links, std::size_t budget)
    : links_(links), sample_bytes_(SampleRing::BytesOf(links, kMostJobs, kMostFlows)) {
  std::size_t samples = 0;
  for (const Resolution& resolution : kResolutions) samples += resolution.samples;
  const std::size_t fitting = budget / sample_bytes_;
  for (const Resolution& resolution : kResolutions) {
    const std::size_t share =
        fitting >= samples ? resolution.samples : resolution.samples * fitting / samples;
    rings_.emplace_back(share, links, kMostJobs, kMostFlows);
  }
}

void FabricHistory::Add(const Sample& sample) {
  const SampleRing& finest = rings_.front();
  if (finest.capacity() == 0 || sample.links.size() != links_) return;
  if (finest.size() > 0 && sample.begin <= finest.At(finest.size() - 1).begin) return;
  // An interval of a coarser ring is complete when a sample of the next one arrives.
  for (std::size_t finer = 0; finer + 1 < rings_.size(); ++finer) AddMerged(finer, sample.begin);
  rings_.front().Add(sample);
}

void FabricHistory::AddMerged(std::size_t finer, TimePoint next) {
  const SampleRing& from = rings_[finer];
  if (from.size() == 0) return;
  const Duration step = kResolutions[finer + 1].step;
  const TimePoint begin = FloorTo(from.At(from.size() - 1).begin, step);
  if (FloorTo(next, step) == begin) return;
  SampleRing& coarser = rings_[finer + 1];
  if (coarser.size() > 0 && coarser.At(coarser.size() - 1).begin >= begin) return;
  std::vector<Sample> samples;
  for (std::size_t i = FirstFrom(from, begin); i < from.size(); ++i) samples.push_back(from.At(i));
  // Not the begin of the interval, before which nothing may have been recorded.
  coarser.Add(merger_.Merge(samples, samples.front().begin));
}

FabricHistory::Series FabricHistory::Between(TimePoint from, TimePoint to,
                                             std::optional<Duration> step) const {
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    if (step) {
      if (kResolutions[i].step == *step) chosen = i;
      continue;
    }
    const SampleRing& best = rings_[chosen];
    const bool reaches = best.size() > 0 && best.At(0).begin <= from;
    if (!reaches && rings_[i].size() > 0 && rings_[i].At(0).begin < best.At(0).begin) chosen = i;
  }
  const SampleRing& ring = rings_[chosen];
  const Duration resolution = kResolutions[chosen].step;
  // A sample that began before `from` describes it, too, if its interval reaches it.
  const std::size_t begin = FirstFrom(ring, from - resolution + Duration(1));
  return {&ring, resolution, begin, std::max(begin, FirstFrom(ring, to + Duration(1)))};
}

std::optional<FabricHistory::Moment> FabricHistory::At(TimePoint time) const {
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    const SampleRing& ring = rings_[i];
    const std::size_t after = FirstFrom(ring, time + Duration(1));
    if (after > 0) return Moment{ring.At(after - 1), kResolutions[i].step};
  }
  return std::nullopt;
}

std::optional<TimePoint> FabricHistory::oldest() const {
  std::optional<TimePoint> oldest;
  for (const SampleRing& ring : rings_) {
    if (ring.size() == 0) continue;
    oldest = oldest ? std::min(*oldest, ring.At(0).begin) : ring.At(0).begin;
  }
  return oldest;
}

std::size_t FabricHistory::full_bytes() const {
  std::size_t samples = 0;
  for (const SampleRing& ring : rings_) samples += ring.capacity();
  return samples * sample_bytes_;
}

std::size_t FabricHistory::used_bytes() const {
  std::size_t samples = 0;
  for (const SampleRing& ring : rings_) samples += ring.size();
  return samples * sample_bytes_;
}

}  // namespace espalier::controller
