#include "common/fabric/path_map.h"

#include <algorithm>

namespace espalier::fabric {
namespace {

// Where the port is in the sorted entries, or where it belongs.
template <typename Entries>
auto Position(Entries& entries, std::uint16_t port) {
  return std::lower_bound(entries.begin(), entries.end(), port,
                          [](const PortEntry& entry, std::uint16_t p) { return entry.port < p; });
}

}  // namespace

bool PathMap::Observe(const PortKey& key, std::uint16_t port, PathIndex path) {
  auto& entries = entries_[key];
  const auto at = Position(entries, port);
  if (at == entries.end() || at->port != port) {
    entries.insert(at, PortEntry{.port = port, .trust = PortTrust::kVerified, .path = path});
    return true;
  }
  const bool agrees = at->path == path || at->trust == PortTrust::kReverify;
  *at = PortEntry{.port = port, .trust = PortTrust::kVerified, .path = path};
  return agrees;
}

void PathMap::Predict(const PortKey& key, std::uint16_t port, PathIndex path) {
  auto& entries = entries_[key];
  const auto at = Position(entries, port);
  if (at == entries.end() || at->port != port) {
    entries.insert(at, PortEntry{.port = port, .trust = PortTrust::kPredicted, .path = path});
  } else if (at->trust != PortTrust::kVerified) {
    *at = PortEntry{.port = port, .trust = PortTrust::kPredicted, .path = path};
  }
}

void PathMap::DropPredictions(const PortKey& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  std::erase_if(found->second,
                [](const PortEntry& entry) { return entry.trust == PortTrust::kPredicted; });
  if (found->second.empty()) entries_.erase(found);
}

void PathMap::DropPrediction(const PortKey& key, std::uint16_t port) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  std::erase_if(found->second,
                [&](const PortEntry& entry) { return entry.port == port && !entry.was_seen; });
  if (found->second.empty()) entries_.erase(found);
}

void PathMap::Forget(const PortKey& key) { entries_.erase(key); }

std::optional<PortEntry> PathMap::Find(const PortKey& key, std::uint16_t port) const {
  const auto& entries = Ports(key);
  const auto at = Position(entries, port);
  if (at == entries.end() || at->port != port) return std::nullopt;
  return *at;
}

const std::vector<PortEntry>& PathMap::Ports(const PortKey& key) const {
  static const std::vector<PortEntry> kNone;
  const auto found = entries_.find(key);
  return found == entries_.end() ? kNone : found->second;
}

std::size_t PathMap::PortCount() const {
  std::size_t count = 0;
  for (const auto& [key, entries] : entries_) count += entries.size();
  return count;
}

}  // namespace espalier::fabric
