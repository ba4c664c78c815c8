#include "controller/paths/models/rehash_detector.h"

#include <algorithm>

namespace espalier::controller {

using fabric::NodeId;

RehashDetector::RehashDetector(std::size_t leaves, const RehashDetectorOptions& options)
    : options_(options),
      pairs_of_source_(std::clamp<std::size_t>(leaves > 0 ? leaves - 1 : 0, 1,
                                               std::max<std::size_t>(options.pairs, 1))),
      sources_of_fabric_(
          std::clamp<std::size_t>(leaves / 2, 2, std::max<std::size_t>(options.sources, 2))) {}

void RehashDetector::HandleMismatch(NodeId source_leaf, NodeId destination_leaf,
                                    const std::string& host, std::size_t voices_needed,
                                    TimePoint now) {
  Suspect& pair = pairs_[{source_leaf, destination_leaf}];
  pair.voices[host].mismatched = now;
  pair.voices_needed = voices_needed;
  pair.mismatched = now;
  pair.is_due = true;
  is_due_ = true;
}

void RehashDetector::AddVoices(const Suspect& pair, TimePoint since, TimePoint now,
                               std::set<std::string>& hosts) const {
  for (const auto& [host, voice] : pair.voices) {
    const bool counts = since == kNever || voice.mismatched > since;
    if (counts && IsWithin(voice.mismatched, options_.window, now)) hosts.insert(host);
  }
}

std::set<NodeId> RehashDetector::ChangedSources(TimePoint now) const {
  struct Source {
    std::size_t pairs = 0;  // with mismatches since the source was taken
    std::set<std::string> hosts;
    std::size_t voices_needed = 1;
  };
  std::map<NodeId, Source> found;
  for (const auto& [leaves, pair] : pairs_) {
    const auto taken = sources_taken_.find(leaves.first);
    const TimePoint since = taken == sources_taken_.end() ? kNever : taken->second;
    const bool is_new = since == kNever || pair.mismatched > since;
    if (!is_new || !IsWithin(pair.mismatched, options_.window, now)) continue;
    Source& source = found[leaves.first];
    ++source.pairs;
    AddVoices(pair, since, now, source.hosts);
    source.voices_needed = pair.voices_needed;
  }
  std::set<NodeId> changed;
  for (const auto& [leaf, source] : found) {
    const auto taken = sources_taken_.find(leaf);
    const bool is_held =
        taken != sources_taken_.end() && IsWithin(taken->second, options_.source_hold, now);
    const bool has_changed =
        source.pairs >= pairs_of_source_ && source.hosts.size() >= source.voices_needed;
    if (has_changed && !is_held) changed.insert(leaf);
  }
  return changed;
}

bool RehashDetector::HasFabricChanged(TimePoint now) const {
  if (IsWithin(fabric_taken_, options_.fabric_hold, now)) return false;
  const auto count = std::ranges::count_if(sources_taken_, [&](const auto& source) {
    return IsWithin(source.second, options_.window, now) && source.second > fabric_taken_;
  });
  return static_cast<std::size_t>(count) >= sources_of_fabric_;
}

bool RehashDetector::TakePair(const RehashScope::LeafPair& leaves, Suspect& pair, TimePoint now,
                              RehashScope& scope) {
  const bool is_covered = scope.fabric || scope.sources.contains(leaves.first);
  std::set<std::string> hosts;
  AddVoices(pair, pair.taken, now, hosts);
  const bool counts_for_all = hosts.size() >= pair.voices_needed;
  if (is_covered || counts_for_all) {
    if (!is_covered && IsWithin(pair.taken, options_.pair_hold, now)) return false;
    if (!is_covered) scope.pairs.insert(leaves);
    pair.taken = now;
    for (auto& [host, voice] : pair.voices) voice.taken = now;
    return true;
  }
  bool is_held = false;
  for (const std::string& host : hosts) {
    Voice& voice = pair.voices[host];
    if (voice.taken != kNever && voice.taken >= voice.mismatched) continue;
    if (IsWithin(voice.taken, options_.pair_hold, now)) {
      is_held = true;
      continue;
    }
    scope.host_pairs.insert({leaves, host});
    voice.taken = now;
  }
  return !is_held;
}

RehashScope RehashDetector::Take(TimePoint now) {
  RehashScope scope;
  if (!is_due_ || IsWithin(taken_, options_.interval, now)) return scope;
  scope.sources = ChangedSources(now);
  for (const NodeId source : scope.sources) sources_taken_[source] = now;
  if (HasFabricChanged(now)) {
    scope.fabric = true;
    fabric_taken_ = now;
  }
  is_due_ = false;
  for (auto at = pairs_.begin(); at != pairs_.end();) {
    auto& [leaves, pair] = *at;
    if (pair.is_due) pair.is_due = !TakePair(leaves, pair, now, scope);
    is_due_ |= pair.is_due;
    const bool is_over = !pair.is_due && !IsWithin(pair.mismatched, options_.window, now);
    at = is_over ? pairs_.erase(at) : std::next(at);
  }
  if (!scope.IsEmpty()) taken_ = now;
  return scope;
}

}  // namespace espalier::controller
