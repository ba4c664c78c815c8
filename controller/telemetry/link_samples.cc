#include "controller/telemetry/link_samples.h"

#include <algorithm>
#include <cmath>

namespace espalier::telemetry {

using fabric::DirectedLink;

namespace {

constexpr Duration kCountersLast = std::chrono::seconds(60);
constexpr double kConfidence = 1.96;

}  // namespace

LinkSamples::LinkSamples(const fabric::Topology& topology)
    : topology_(topology), sums_(2 * topology.links().size()) {}

void LinkSamples::Add(DirectedLink link, std::uint32_t frame_bytes, double weight, TimePoint now) {
  Sum& sum = sums_[link.Index()];
  if (!sum.has_samples) sum.since = now;
  const double bytes = weight * frame_bytes;
  sum.has_samples = true;
  sum.sampled = now;
  sum.typical = bytes;
  sum.bytes += bytes;
  sum.squared_bytes += bytes * bytes;
}

void LinkSamples::HandleCounters(DirectedLink link, TimePoint now) {
  Sum& sum = sums_[link.Index()];
  sum.is_counted = true;
  sum.counted = now;
}

std::vector<LinkSamples::Load> LinkSamples::TakeLoads(TimePoint now) {
  std::vector<Load> loads;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    Sum& sum = sums_[i];
    if (!sum.has_samples) continue;
    const Duration span = now - sum.since;
    if (span < kLeastSpan) continue;
    const auto link = DirectedLink::FromIndex(i);
    const auto rate = static_cast<double>(topology_.link(link.link).rate.value);
    const double seconds = SecondsOf(span);
    // One more sample than came bounds a load of which none came.
    const double squares = sum.squared_bytes + sum.typical * sum.typical;
    const Load load{link, sum.bytes * 8 / seconds, kConfidence * std::sqrt(squares) * 8 / seconds};
    const bool is_last = span >= kGreatestSpan;
    const bool is_sure = load.error_bps <= rate / (is_last ? 8 : 16);
    const bool has_counters = sum.is_counted && now - sum.counted < kCountersLast;
    if (is_sure && !has_counters && load.bps <= rate * 1.1) loads.push_back(load);
    if (!is_sure && !is_last) continue;
    // A link of which nothing was seen for long may not be sampled any more.
    sum.has_samples = now - sum.sampled < kGreatestSpan;
    sum.since = now;
    sum.bytes = sum.squared_bytes = 0;
  }
  return loads;
}

}  // namespace espalier::telemetry
