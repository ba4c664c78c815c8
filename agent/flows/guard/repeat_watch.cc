#include "agent/flows/guard/repeat_watch.h"

namespace espalier::agent {

bool RepeatWatch::IsQuiet(const FlowSample& flow) {
  return flow.local_qpn != 0 && flow.remaining_bytes == 0 && flow.outstanding_bytes == 0;
}

void RepeatWatch::HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows) {
  if (!read_ || now < next_) return;
  next_ = now + kInterval;
  for (auto& [address, nic] : nics_) nic.is_in_use = false;
  for (const FlowMeasure& flow : flows) {
    if (!IsQuiet(*flow.sample)) continue;
    const auto known = nics_.find(flow.sample->source);
    if (known != nics_.end()) {
      known->second.is_in_use = true;
    } else if (nics_.size() < kMostNics) {
      nics_[flow.sample->source] = {.repeats = read_(flow.sample->source), .is_in_use = true};
    }
  }
  std::erase_if(nics_, [](const auto& nic) { return !nic.second.is_in_use; });
  for (auto& [address, nic] : nics_) {
    const std::uint32_t repeats = read_(address);
    if (repeats == nic.repeats) continue;
    nic.repeats = repeats;
    nic.grew = now;
    nic.has_grown = true;
  }
}

bool RepeatWatch::MayBeUnheard(const FlowSample& flow, TimePoint now) const {
  if (nics_.empty() || !IsQuiet(flow)) return false;
  const auto nic = nics_.find(flow.source);
  return nic != nics_.end() && nic->second.has_grown && now - nic->second.grew < kMemory;
}

}  // namespace espalier::agent
