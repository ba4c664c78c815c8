#include "controller/paths/rehash_detector.h"

#include <algorithm>

namespace espalier::controller {

using fabric::NodeId;

RehashDetector::RehashDetector(std::size_t leaves, const RehashDetectorOptions& options)
    : options_(options),
      pairs_of_source_(std::clamp<std::size_t>(leaves > 0 ? leaves - 1 : 0, 1,
                                               std::max<std::size_t>(options.pairs, 1))),
      sources_of_fabric_(
          std::clamp<std::size_t>(leaves / 2, 2, std::max<std::size_t>(options.sources, 2))) {}

void RehashDetector::HandleMismatch(NodeId source_leaf, NodeId destination_leaf, TimePoint now) {
  Suspect& pair = pairs_[{source_leaf, destination_leaf}];
  pair.mismatched = now;
  pair.is_due = true;
  is_due_ = true;
}

std::set<NodeId> RehashDetector::ChangedSources(TimePoint now) const {
  std::map<NodeId, std::size_t> counts;  // pairs with mismatches since the source was taken
  for (const auto& [leaves, pair] : pairs_) {
    const auto taken = sources_taken_.find(leaves.first);
    const bool is_new = taken == sources_taken_.end() || pair.mismatched > taken->second;
    if (is_new && IsWithin(pair.mismatched, options_.window, now)) ++counts[leaves.first];
  }
  std::set<NodeId> changed;
  for (const auto& [source, count] : counts) {
    const auto taken = sources_taken_.find(source);
    const bool is_held =
        taken != sources_taken_.end() && IsWithin(taken->second, options_.source_hold, now);
    if (count >= pairs_of_source_ && !is_held) changed.insert(source);
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
    const bool is_covered = scope.fabric || scope.sources.contains(leaves.first);
    if (pair.is_due && (is_covered || !IsWithin(pair.taken, options_.pair_hold, now))) {
      if (!is_covered) scope.pairs.insert(leaves);
      pair.taken = now;
      pair.is_due = false;
    }
    is_due_ |= pair.is_due;
    const bool is_over = !pair.is_due && !IsWithin(pair.mismatched, options_.window, now);
    at = is_over ? pairs_.erase(at) : std::next(at);
  }
  if (!scope.IsEmpty()) taken_ = now;
  return scope;
}

}  // namespace espalier::controller
