#include "controller/paths/models/port_models.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "controller/paths/models/path_reach.h"
#include "controller/paths/models/return_key.h"

namespace espalier::controller {
namespace {

using fabric::LinearPortMap;
using fabric::PathIndex;
using fabric::PortEntry;
using fabric::PortKey;
using fabric::PortSample;
using fabric::PortTrust;

// With this many samples, a hash that is not recognised as linear counts as not linear.
constexpr std::size_t kMaxSamples = 256;

// A return path starts at a listener's port, which is below the range that models cover.
bool IsSample(const PortEntry& entry) {
  return entry.port >= fabric::kFirstRocePort && entry.trust == PortTrust::kVerified;
}

}  // namespace

PortModels::PortModels(const fabric::Topology& topology, fabric::PathTable& paths,
                       const fabric::PathMap& map)
    : topology_(topology), paths_(paths), map_(map), hosts_(topology, paths) {
  auto catalogue = fabric::PathPredictor::Build(topology, paths);
  if (catalogue) {
    catalogue_.emplace(std::move(*catalogue));
  } else {
    Log(LogLevel::kWarning, "event=no_hash_models error=\"{}\"", catalogue.error().message);
  }
}

PortModels::Pair* PortModels::FindPair(const PortKey& key) {
  const auto from = paths_.FindAttachment(key.source);
  const auto to = paths_.FindAttachment(key.destination);
  if (!from || !to || from->leaf == to->leaf) return nullptr;
  const auto [pair, is_new] = pairs_.try_emplace({from->leaf, to->leaf, key.protocol});
  if (is_new) {
    pair->second.catalogue_failed = rehashed_.Contains(from->leaf, to->leaf);
    pair->second.version = ++versions_;
    for (const RehashScope::HostPair& one : rehashed_.host_pairs) {
      if (one.pair == std::pair(from->leaf, to->leaf)) pair->second.distrusted_by.insert(one.host);
    }
  }
  return &pair->second;
}

bool PortModels::IsDistrusted(const Pair& pair, const PortKey& key) const {
  return !pair.distrusted_by.empty() &&
         pair.distrusted_by.contains(fabric::HostOf(topology_.node(key.source)));
}

std::size_t PortModels::PathCount(const PortKey& key) {
  const auto from = paths_.FindAttachment(key.source);
  const auto to = paths_.FindAttachment(key.destination);
  return from && to ? paths_.Between(from->leaf, to->leaf).size() : 0;
}

std::vector<PortSample> PortModels::Samples(const PortKey& key) const {
  std::vector<PortSample> samples;
  for (const PortEntry& entry : map_.Ports(key)) {
    if (IsSample(entry)) samples.push_back({entry.port, entry.path});
  }
  return samples;
}

const LinearPortMap* PortModels::LinearOf(Pair& pair, const PortKey& key) const {
  if (!pair.linear || IsDistrusted(pair, key)) return nullptr;
  auto own = pair.by_key.find(key);
  if (own == pair.by_key.end()) {
    const auto& known = map_.Ports(key);
    const auto sample = std::ranges::find_if(known, IsSample);
    const auto shifted =
        sample == known.end() ? std::nullopt : pair.linear->ForKeyOf({sample->port, sample->path});
    if (!shifted) return nullptr;
    own = pair.by_key.emplace(key, *shifted).first;
  }
  return &own->second;
}

std::optional<fabric::PathPredictor::Ports> PortModels::CatalogueOf(const Pair& pair,
                                                                    const PortKey& key) {
  const auto& sources = topology_.node(key.source).addresses;
  const auto& destinations = topology_.node(key.destination).addresses;
  if (!catalogue_ || pair.catalogue_failed || sources.empty() || destinations.empty()) {
    return std::nullopt;
  }
  if (IsDistrusted(pair, key)) return std::nullopt;
  return catalogue_->PortsOf({.source = sources.front(),
                              .destination = destinations.front(),
                              .protocol = key.protocol,
                              .source_port = 0,
                              .destination_port = key.destination_port,
                              .destination_qpn = key.destination_qpn},
                             key.source, key.destination);
}

PortModels::Return PortModels::PredictReturn(const PortKey& key, std::uint16_t port) {
  const PortKey back = ReturnKeyOf(key, port);
  const Pair* const pair = FindPair(back);
  if (pair == nullptr) return {};
  if (const auto ports = CatalogueOf(*pair, back)) {
    const auto path = ports->Predict(key.destination_port);
    const bool is_lost = ports->LeadsToDeadEnd(key.destination_port);
    if (path || is_lost) return {.path = path, .is_lost = is_lost};
  }
  return {.path = pair->returns.Predict(key, port), .is_learned = true};
}

void PortModels::LearnReturn(const PortKey& back, std::uint16_t port, PathIndex path) {
  if (port >= fabric::kFirstRocePort || back.destination_port < fabric::kFirstRocePort) return;
  Pair* const pair = FindPair(back);
  const std::size_t path_count = PathCount(back);
  if (pair == nullptr || path_count < 2) return;
  pair->returns.Add(ReturnKeyOf(back, port), {back.destination_port, path}, path_count);
}

std::optional<PortModels::KeyModel> PortModels::ModelOf(const PortKey& key) {
  Pair* pair = FindPair(key);
  if (pair == nullptr) return std::nullopt;
  KeyModel model;
  model.linear = LinearOf(*pair, key);
  model.catalogue = CatalogueOf(*pair, key);
  model.version_ = 2 * pair->version + (model.linear == nullptr ? 0 : 1);
  if (!model.catalogue && model.linear == nullptr) return std::nullopt;
  return model;
}

std::optional<PathIndex> PortModels::KeyModel::Predict(std::uint16_t port) const {
  if (catalogue) {
    if (const auto path = catalogue->Predict(port)) return path;
  }
  return linear == nullptr ? std::nullopt : linear->Predict(port);
}

// Whether the samples have a port of each path that has any. If the ports of a path are silent, the
// others may look like a linear hash that never takes it.
bool PortModels::ShowAllPaths(const PortKey& key, std::span<const PortSample> samples,
                              std::size_t path_count) const {
  const std::size_t silent = map_.SilentPorts(key).size();
  if (silent == 0) return true;
  std::set<PathIndex> seen;
  for (const PortSample& sample : samples) seen.insert(sample.path);
  return seen.size() == path_count || AreEnough(samples.size(), silent, path_count);
}

void PortModels::Learn(const PortKey& key) {
  Pair* pair = FindPair(key);
  if (pair == nullptr || pair->verdict != LinearPortMap::Verdict::kUndecided) return;
  const std::size_t path_count = PathCount(key);
  if (path_count < 2) return;
  const auto samples = Samples(key);
  if (ShowAllPaths(key, samples, path_count)) {
    auto recognition = LinearPortMap::Recognise(samples, path_count);
    pair->verdict = recognition.verdict;
    pair->linear = std::move(recognition.map);
    if (pair->linear) pair->version = ++versions_;
  }
  if (samples.size() >= kMaxSamples && !pair->linear) {
    pair->verdict = LinearPortMap::Verdict::kNotLinear;
  }
}

bool PortModels::WantsSamples(const PortKey& key) {
  Pair* pair = FindPair(key);
  if (pair == nullptr || pair->verdict != LinearPortMap::Verdict::kUndecided) return false;
  if (!pair->sampled) pair->sampled = key;
  return pair->sampled == key;
}

void PortModels::Drop(Pair& pair) {
  pair.catalogue_failed = true;
  pair.verdict = LinearPortMap::Verdict::kNotLinear;
  pair.linear.reset();
  pair.by_key.clear();
}

void PortModels::Distrust(const PortKey& key) {
  Pair* pair = FindPair(key);
  if (pair == nullptr) return;
  pair->version = ++versions_;
  pair->distrusted_by.insert(fabric::HostOf(topology_.node(key.source)));
  if (pair->distrusted_by.size() >= hosts_.VoicesNeeded(paths_.FindAttachment(key.source)->leaf)) {
    Drop(*pair);
  }
}

void PortModels::Forget(const PortKey& key) {
  Pair* pair = FindPair(key);
  if (pair == nullptr) return;
  pair->by_key.erase(key);
  if (pair->sampled == key) pair->sampled.reset();
  if (Pair* const opposite = FindPair(ReturnKeyOf(key, 0))) opposite->returns.Forget(key);
}

void PortModels::HandleFabricChange() {
  pairs_.clear();
  rehashed_ = {};
}

void PortModels::HandleRehash(const RehashScope& scope) {
  rehashed_.fabric |= scope.fabric;
  rehashed_.sources.insert(scope.sources.begin(), scope.sources.end());
  rehashed_.pairs.insert(scope.pairs.begin(), scope.pairs.end());
  rehashed_.host_pairs.insert(scope.host_pairs.begin(), scope.host_pairs.end());
  for (auto& [leaves, pair] : pairs_) {
    for (const RehashScope::HostPair& one : scope.host_pairs) {
      if (one.pair != std::pair(leaves.source_leaf, leaves.destination_leaf)) continue;
      pair.distrusted_by.insert(one.host);
      pair.version = ++versions_;
    }
  }
  std::erase_if(pairs_, [&](const auto& pair) {
    return scope.Contains(pair.first.source_leaf, pair.first.destination_leaf);
  });
}

}  // namespace espalier::controller
