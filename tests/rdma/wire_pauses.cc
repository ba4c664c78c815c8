#include "tests/rdma/wire_pauses.h"

#include <algorithm>
#include <cmath>

namespace espalier::rdma {
namespace {

constexpr std::uint32_t kNumbers = 1 << 24;

bool IsAfter(std::uint32_t number, std::uint32_t other) {
  const std::uint32_t distance = (number - other) % kNumbers;
  return distance != 0 && distance < kNumbers / 2;
}

Duration Overlap(const Pause& a, const Pause& b) {
  return std::min(a.to, b.to) - std::max(a.from, b.from);
}

}  // namespace

void WirePauses::Take(std::span<const Packet> packets) {
  for (const Packet& packet : packets) {
    if (packet.IsMessage() && packet.source == source_ && packet.destination == destination_) {
      TakeMessage(packet);
    } else if (packet.IsAcknowledgement() && packet.source == destination_ &&
               packet.destination == source_) {
      TakeAcknowledgement(packet);
    }
  }
}

void WirePauses::TakeMessage(const Packet& packet) {
  const auto [at, is_new] = queues_.try_emplace(packet.remote_number);
  Queue& queue = at->second;
  if (!is_new && !IsAfter(packet.number, queue.last)) return;  // sent again
  queue.last = packet.number;
  if (queue.waits) return;
  queue.waits = true;
  if (waiting_++ == 0 && idle_since_ != TimePoint{}) {
    pauses_.push_back({.from = idle_since_, .to = packet.at});
  }
}

// It names the queue pair of the sender, but the numbers of packets begin at random.
void WirePauses::TakeAcknowledgement(const Packet& packet) {
  for (auto& [number, queue] : queues_) {
    if (!queue.waits || queue.last != packet.number) continue;
    queue.waits = false;
    if (--waiting_ == 0) idle_since_ = packet.at;
  }
}

PauseErrors Compare(std::span<const Pause> wire, std::span<const Pause> told, Duration clear) {
  PauseErrors errors;
  if (told.empty()) {
    errors.missed = errors.clear = wire.size();
    return errors;
  }
  const auto overlaps = [](const Pause& a) {
    return [&a](const Pause& b) { return Overlap(a, b) > Duration::zero(); };
  };
  for (const Pause& pause : wire) {
    const bool is_inside = pause.from >= told.front().from && pause.to <= told.back().to;
    if (!is_inside || pause.length() < clear) continue;
    ++errors.clear;
    if (std::ranges::none_of(told, overlaps(pause))) ++errors.missed;
  }
  for (const Pause& pause : told) {
    const auto nearest = std::ranges::max_element(
        wire, {}, [&](const Pause& other) { return Overlap(pause, other); });
    if (nearest == wire.end() || Overlap(pause, *nearest) <= Duration::zero()) {
      ++errors.invented;
      continue;
    }
    errors.starts.push_back(SecondsOf(pause.from - nearest->from));
    errors.ends.push_back(SecondsOf(pause.to - nearest->to));
  }
  return errors;
}

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  for (double& value : values) value = std::abs(value);
  std::ranges::sort(values);
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size()));
  return values[std::min(at, values.size() - 1)];
}

}  // namespace espalier::rdma
