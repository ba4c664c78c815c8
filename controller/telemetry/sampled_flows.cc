#include "controller/telemetry/sampled_flows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace espalier::telemetry {

using fabric::DirectedLink;

SampledFlows::SampledFlows(std::size_t most_flows, std::uint64_t seed)
    : most_flows_(std::max<std::size_t>(most_flows, 1)),
      seed_(seed),
      slots_(std::bit_ceil(2 * most_flows_)) {}

SampledFlows::Slot* SampledFlows::Find(const PacketKey& key) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = HashOf(key, seed_) & mask;
  while (slots_[at].is_used && slots_[at].key != key) at = (at + 1) & mask;
  if (slots_[at].is_used) return &slots_[at];
  if (used_ >= most_flows_) return nullptr;
  ++used_;
  slots_[at].is_used = true;
  slots_[at].key = key;
  return &slots_[at];
}

void SampledFlows::Add(const SampledPacket& packet, DirectedLink link, double weight,
                       TimePoint now) {
  Tick(now);
  Slot* const slot = Find(packet.key);
  const auto index = static_cast<std::uint32_t>(link.Index());
  Counts* room = nullptr;
  if (slot != nullptr) {
    for (Counts& counts : slot->counts[current_]) {
      if (counts.samples != 0 && counts.link != index) continue;
      room = &counts;
      break;
    }
  }
  if (room == nullptr) {
    ++left_out_;
    return;
  }
  const auto bytes = static_cast<float>(weight * packet.frame_bytes);
  room->link = index;
  ++room->samples;
  room->bytes += bytes;
  room->squared_bytes += bytes * bytes;
}

void SampledFlows::Rotate() {
  current_ = 1 - current_;
  std::vector<Slot> old(slots_.size());
  old.swap(slots_);
  used_ = 0;
  for (Slot& slot : old) {
    slot.counts[current_] = {};
    const bool is_alive =
        slot.is_used && std::ranges::any_of(slot.counts[1 - current_],
                                            [](const Counts& of) { return of.samples != 0; });
    if (!is_alive) continue;
    if (Slot* const kept = Find(slot.key)) kept->counts = slot.counts;
  }
}

void SampledFlows::Tick(TimePoint now) {
  if (!has_started_) {
    has_started_ = true;
    first_ = window_start_ = now;
  }
  if (now - window_start_ < kWindow) return;
  const bool is_long_ago = now - window_start_ >= 2 * kWindow;
  Rotate();
  if (is_long_ago) Rotate();
  first_ = is_long_ago ? now : window_start_;
  window_start_ = now;
}

std::vector<SampledFlows::Flow> SampledFlows::Top(std::size_t most, std::uint32_t least_samples,
                                                  TimePoint now) const {
  const double seconds = std::max(SecondsOf(now - first_), 1e-3);
  std::vector<Flow> flows;
  for (const Slot& slot : slots_) {
    if (!slot.is_used) continue;
    Flow flow{.key = slot.key};
    for (const auto& window : slot.counts) {
      for (const Counts& counts : window) {
        if (counts.samples == 0) continue;
        const auto link = DirectedLink::FromIndex(counts.link);
        auto known = std::ranges::find(flow.links, link, &OnLink::link);
        if (known == flow.links.end()) known = flow.links.insert(known, OnLink{link});
        known->samples += counts.samples;
        known->bytes += counts.bytes;
        known->squared_bytes += counts.squared_bytes;
      }
    }
    std::ranges::sort(flow.links, std::greater<>(), &OnLink::samples);
    if (flow.links.empty() || flow.links.front().samples < least_samples) continue;
    const OnLink& best = flow.links.front();
    flow.bps = best.bytes * 8 / seconds;
    // Of a sum of a Poisson number of terms, the variance is the sum of their squares.
    flow.error = best.bytes > 0 ? 1.96 * std::sqrt(best.squared_bytes) / best.bytes : 1;
    flows.push_back(std::move(flow));
  }
  const std::size_t count = std::min(most, flows.size());
  std::ranges::partial_sort(flows, flows.begin() + static_cast<std::ptrdiff_t>(count),
                            std::greater<>(), &Flow::bps);
  flows.resize(count);
  return flows;
}

}  // namespace espalier::telemetry
