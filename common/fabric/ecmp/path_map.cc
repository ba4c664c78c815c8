#include "common/fabric/ecmp/path_map.h"

#include <algorithm>
#include <utility>

#include "common/fabric/ecmp/port_index.h"

namespace espalier::fabric {
namespace {

// The position of the port in the sorted entries, or the one where it belongs.
template <typename Entries>
auto Position(Entries& entries, std::uint16_t port) {
  return std::lower_bound(entries.begin(), entries.end(), port,
                          [](const PortEntry& entry, std::uint16_t p) { return entry.port < p; });
}

}  // namespace

PathMap::PathMap() = default;
PathMap::~PathMap() = default;
PathMap::PathMap(PathMap&&) noexcept = default;
PathMap& PathMap::operator=(PathMap&&) noexcept = default;

void PathMap::MarkReverify(Affected affected) {
  if (marks_.size() == kMaxMarks) {
    for (auto& [key, known] : keys_) Marked(key, known);
    first_mark_ += marks_.size();
    marks_.clear();
  }
  marks_.push_back(std::move(affected));
  ++retractions_;
}

PathMap::Known& PathMap::Marked(const PortKey& key, Known& known) const {
  for (; known.marks < mark_count(); ++known.marks) {
    if (!marks_[known.marks - first_mark_](key)) continue;
    for (PortEntry& entry : known.entries) entry.trust = PortTrust::kReverify;
    known.without_ports.clear();
    known.silent.clear();
    known.index.reset();
  }
  return known;
}

PathMap::Known& PathMap::KnownOf(const PortKey& key) {
  const auto [found, is_new] = keys_.try_emplace(key);
  if (is_new) found->second.marks = mark_count();
  return Marked(key, found->second);
}

bool PathMap::Observe(const PortKey& key, std::uint16_t port, PathIndex path) {
  Known& known = KnownOf(key);
  std::erase(known.without_ports, path);
  if (!known.silent.empty()) std::erase(known.silent, port);
  auto& entries = known.entries;
  const auto at = Position(entries, port);
  if (at == entries.end() || at->port != port) {
    const PortEntry seen{.port = port, .trust = PortTrust::kVerified, .path = path};
    entries.insert(at, seen);
    if (known.index) known.index->Add(seen);
    NoteAddition(known, path);
    return true;
  }
  const bool agrees = at->path == path || at->trust == PortTrust::kReverify;
  if (at->path != path || at->trust == PortTrust::kReverify) NoteAddition(known, path);
  retractions_ += at->path == path ? 0 : 1;
  const auto origin =
      at->origin == PortOrigin::kSampled ? PortOrigin::kSampled : PortOrigin::kConfirmed;
  if (known.index) known.index->Remove(*at);
  *at = {.port = port, .trust = PortTrust::kVerified, .origin = origin, .path = path};
  if (known.index) known.index->Add(*at);
  return agrees;
}

void PathMap::Predict(const PortKey& key, std::uint16_t port, PathIndex path) {
  Known& known = KnownOf(key);
  auto& entries = known.entries;
  const PortEntry predicted{.port = port, .trust = PortTrust::kPredicted, .path = path};
  const auto at = Position(entries, port);
  if (at == entries.end() || at->port != port) {
    entries.insert(at, predicted);
  } else if (at->trust != PortTrust::kVerified) {
    retractions_ += at->path == path ? 0 : 1;
    if (known.index) known.index->Remove(*at);
    *at = predicted;
  } else {
    return;
  }
  std::erase(known.without_ports, path);
  if (known.index) known.index->Add(predicted);
  NoteAddition(known, path);
}

void PathMap::PredictNone(const PortKey& key, std::vector<PathIndex> paths) {
  std::sort(paths.begin(), paths.end());
  Known& known = KnownOf(key);
  if (!paths.empty()) {
    std::vector<bool> has_port(paths.back().Index() + 1);
    for (const PortEntry& entry : known.entries) {
      const bool counts = entry.trust != PortTrust::kReverify;
      if (counts && entry.path.Index() < has_port.size()) has_port[entry.path.Index()] = true;
    }
    std::erase_if(paths, [&](PathIndex path) { return has_port[path.Index()]; });
  }
  known.without_ports = std::move(paths);
}

const PortIndex* PathMap::IndexOf(const PortKey& key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return nullptr;
  Known& known = Marked(key, found->second);
  if (known.entries.size() < kFewestIndexed) return nullptr;
  if (!known.index) {
    known.index = std::make_unique<PortIndex>(known.added);
    for (const PortEntry& entry : known.entries) known.index->Add(entry);
  }
  return known.index.get();
}

void PathMap::NoteSilence(const PortKey& key, std::uint16_t port) {
  const auto entry = Find(key, port);
  if (entry && entry->trust != PortTrust::kReverify) return;
  auto& silent = KnownOf(key).silent;
  const auto at = std::ranges::lower_bound(silent, port);
  if (at == silent.end() || *at != port) silent.insert(at, port);
}

std::span<const std::uint16_t> PathMap::SilentPorts(const PortKey& key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return {};
  return Marked(key, found->second).silent;
}

void PathMap::DropPredictions(const PortKey& key) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  Known& known = Marked(key, found->second);
  known.without_ports.clear();
  known.index.reset();
  retractions_ += std::erase_if(
      known.entries, [](const PortEntry& entry) { return entry.trust == PortTrust::kPredicted; });
  if (known.entries.empty() && known.silent.empty()) keys_.erase(found);
}

void PathMap::DropPrediction(const PortKey& key, std::uint16_t port) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  found->second.index.reset();
  retractions_ += std::erase_if(found->second.entries, [&](const PortEntry& entry) {
    return entry.port == port && entry.origin == PortOrigin::kPredicted;
  });
  const Known& left = found->second;
  if (left.entries.empty() && left.without_ports.empty() && left.silent.empty()) {
    keys_.erase(found);
  }
}

void PathMap::Forget(const PortKey& key) { retractions_ += keys_.erase(key); }

std::optional<PortEntry> PathMap::Find(const PortKey& key, std::uint16_t port) const {
  const auto& entries = Ports(key);
  const auto at = Position(entries, port);
  if (at == entries.end() || at->port != port) return std::nullopt;
  return *at;
}

const std::vector<PortEntry>& PathMap::Ports(const PortKey& key) const {
  static const std::vector<PortEntry> kNone;
  const auto found = keys_.find(key);
  return found == keys_.end() ? kNone : Marked(key, found->second).entries;
}

void PathMap::NoteAddition(Known& known, PathIndex path) {
  known.added = ++additions_;
  if (known.index) known.index->NoteAddition(path, known.added);
}

std::uint64_t PathMap::LastAddition(const PortKey& key, PathIndex path) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return 0;
  const Known& known = Marked(key, found->second);
  return known.index ? known.index->LastAddition(path) : known.added;
}

std::span<const PathIndex> PathMap::PathsWithoutPorts(const PortKey& key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return {};
  return Marked(key, found->second).without_ports;
}

std::size_t PathMap::PortCount() const {
  std::size_t count = 0;
  for (const auto& [key, known] : keys_) count += known.entries.size();
  return count;
}

}  // namespace espalier::fabric
