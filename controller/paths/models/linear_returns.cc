#include "controller/paths/models/linear_returns.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {

using fabric::LinearPortMap;
using fabric::PathIndex;
using fabric::PortKey;
using fabric::PortSample;

void LinearReturns::Add(const PortKey& key, PortSample seen, std::size_t path_count) {
  if (has_given_up_ || seen.port < fabric::kFirstRocePort) return;
  if (map_) {
    const auto own = by_key_.find(key);
    if (own != by_key_.end()) {
      const auto predicted = own->second.Predict(seen.port);
      if (predicted && predicted != seen.path) GiveUp();
    } else if (const auto shifted = map_->ForKeyOf(seen)) {
      by_key_.emplace(key, *shifted);
    }
    return;
  }
  std::vector<PortSample>& own = samples_[key];
  const bool is_known = std::ranges::any_of(own, [&](const PortSample& sample) {
    return sample.port == seen.port && sample.path == seen.path;
  });
  if (is_known) return;
  own.push_back(seen);
  if (++sample_count_ % kStep == 0) Recognise(path_count);
}

// Two keys hash a port x to L(x) ^ a and L(x) ^ b. If the first one's port p and the second one's
// port q share a path, L(p ^ q) = a ^ b: so the second one's port x takes the path that x ^ p ^ q
// takes for the first one. That makes samples of one key of all of them, but for keys that show no
// path that others have.
std::vector<PortSample> LinearReturns::AsOneKey() const {
  std::vector<PortSample> all;
  std::map<PathIndex, std::uint16_t> port_of;
  for (const auto& [key, samples] : samples_) {
    const auto common = std::ranges::find_if(
        samples, [&](const PortSample& sample) { return port_of.contains(sample.path); });
    if (common == samples.end() && !all.empty()) continue;
    const int shift = common == samples.end() ? 0 : common->port ^ port_of.at(common->path);
    for (const PortSample& sample : samples) {
      const auto port = static_cast<std::uint16_t>(sample.port ^ shift);
      all.push_back({port, sample.path});
      port_of.try_emplace(sample.path, port);
    }
  }
  return all;
}

void LinearReturns::Recognise(std::size_t path_count) {
  auto recognition = LinearPortMap::Recognise(AsOneKey(), path_count);
  const bool is_not_linear = recognition.verdict == LinearPortMap::Verdict::kNotLinear;
  const bool has_all_samples = sample_count_ >= kMostSamples;
  // If all ports have one path, those of the others may only be silent.
  const bool is_known = recognition.map && !recognition.map->IsConstant() &&
                        (recognition.map->PortsToProbe().empty() || has_all_samples);
  if (is_known) {
    map_ = std::move(recognition.map);
    for (const auto& [key, samples] : std::exchange(samples_, {})) {
      if (const auto shifted = map_->ForKeyOf(samples.front())) by_key_.emplace(key, *shifted);
    }
  } else if (is_not_linear || has_all_samples) {
    GiveUp();
  }
}

void LinearReturns::GiveUp() {
  *this = {};
  has_given_up_ = true;
}

std::optional<PathIndex> LinearReturns::Predict(const PortKey& key, std::uint16_t port) const {
  const auto own = by_key_.find(key);
  if (own == by_key_.end() || port < fabric::kFirstRocePort) return std::nullopt;
  return own->second.Predict(port);
}

void LinearReturns::Forget(const PortKey& key) {
  by_key_.erase(key);
  const auto own = samples_.find(key);
  if (own == samples_.end()) return;
  sample_count_ -= own->second.size();
  samples_.erase(own);
}

}  // namespace espalier::controller
