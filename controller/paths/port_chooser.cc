#include "controller/paths/port_chooser.h"

#include <algorithm>
#include <bit>

namespace espalier::controller {

using fabric::PathIndex;
using fabric::PortEntry;
using fabric::PortKey;
using fabric::PortTrust;

void PortsInUse::Release(const PortKey& key, std::uint16_t port) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  found->second.taken.Erase(port);
  ++found->second.releases;
  if (found->second.taken.empty()) keys_.erase(found);
}

bool PortsInUse::Exchange(const PortKey& key, std::uint16_t from, std::uint16_t to) {
  OfOneKey& own = keys_[key];
  if (!own.taken.Insert(to)) return false;
  if (from == 0) return true;
  own.taken.Erase(from);
  ++own.releases;
  return true;
}

const fabric::PortSet* PortsInUse::OfKey(const PortKey& key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &found->second.taken;
}

bool PortsInUse::IsTaken(const PortKey& key, std::uint16_t port) const {
  const fabric::PortSet* const taken = OfKey(key);
  return taken != nullptr && taken->Contains(port);
}

void PortsInUse::RememberNone(const fabric::PathMap& map, const PortKey& key, PathIndex path,
                              PortNeed need) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;  // no port of the key is taken: there is little to search
  const OfOneKey& own = found->second;
  if (path.Index() >= own.none.size()) own.none.resize(path.Index() + 1);
  own.none[path.Index()][static_cast<std::size_t>(need)] = {map.LastAddition(key, path),
                                                            own.releases};
}

bool PortsInUse::RemembersNone(const fabric::PathMap& map, const PortKey& key, PathIndex path,
                               PortNeed need) const {
  const auto found = keys_.find(key);
  if (found == keys_.end() || path.Index() >= found->second.none.size()) return false;
  const OfOneKey& own = found->second;
  return own.none[path.Index()][static_cast<std::size_t>(need)] ==
         Stamp{map.LastAddition(key, path), own.releases};
}

namespace {

// Lower is better.
int Rank(const PortEntry& entry, std::uint16_t current) {
  if (entry.port == current && entry.trust != PortTrust::kReverify) return 0;
  switch (entry.trust) {
    case PortTrust::kVerified:
      return 1;
    case PortTrust::kPredicted:
      return 2;
    case PortTrust::kReverify:
      return 3;
  }
  return 4;
}

// Keeps the best of the free ports that it is shown.
class Best {
 public:
  Best(std::uint16_t current, const std::function<int(std::uint16_t)>& doubt_of)
      : current_(current), doubt_of_(doubt_of) {}

  // False: no port that is worse than this one, apart from doubts, can be the best any more.
  bool Consider(const PortEntry& entry) {
    constexpr int kPerDoubt = 8;  // more than every rank
    int rank = Rank(entry, current_);
    if (best_ && rank >= rank_) return false;
    if (doubt_of_) rank += kPerDoubt * doubt_of_(entry.port);
    if (!best_ || rank < rank_) {
      best_ = entry;
      rank_ = rank;
    }
    return ++considered_ < kMostDoubted;
  }
  const std::optional<PortEntry>& entry() const { return best_; }

 private:
  const std::uint16_t current_;
  const std::function<int(std::uint16_t)>& doubt_of_;
  std::optional<PortEntry> best_;
  int rank_ = 0;
  std::size_t considered_ = 0;
};

// Problem: a key may have thousands of known ports, nearly all of them taken, and a flow that needs
// one must not pay for that. Idea: where so many are known, the map has them as words of bits by
// path and trust, and the taken ones are bits, too. Cost: at most three times 256 words.
void ConsiderIndexed(const fabric::PortIndex& index, PathIndex path, PortNeed need,
                     const fabric::PortSet* taken, const PortsInUse& in_use, Best& best) {
  for (const PortTrust trust :
       {PortTrust::kVerified, PortTrust::kPredicted, PortTrust::kReverify}) {
    if (trust == PortTrust::kReverify && need == PortNeed::kSure) return;
    const fabric::PortIndex::Words* const words = index.Find(path, trust);
    if (words == nullptr) continue;
    in_use.CountLookups(words->size());
    for (std::size_t n = 0; n < words->size(); ++n) {
      std::uint64_t free = (*words)[n] & ~(taken == nullptr ? 0 : taken->RoceWord(n));
      for (; free != 0; free &= free - 1) {
        in_use.CountLookups(1);
        const auto port = static_cast<std::uint16_t>(
            fabric::kFirstRocePort + 64 * n + static_cast<std::size_t>(std::countr_zero(free)));
        if (!best.Consider({.port = port, .trust = trust, .path = path})) return;
      }
    }
  }
}

}  // namespace

std::optional<PortEntry> ChoosePort(const fabric::PathMap& map, const PortKey& key, PathIndex path,
                                    const PortsInUse& in_use, PortNeed need, std::uint16_t current,
                                    const std::function<int(std::uint16_t)>& doubt_of) {
  const fabric::PortSet* const taken = in_use.OfKey(key);
  const auto is_free = [&](const PortEntry& entry) {
    const bool serves = entry.trust != PortTrust::kReverify || need == PortNeed::kUrgent;
    return serves && entry.path == path && (taken == nullptr || !taken->Contains(entry.port));
  };
  Best best(current, doubt_of);
  in_use.CountLookups(1);
  const auto own = current == 0 ? std::nullopt : map.Find(key, current);
  if (own && is_free(*own)) best.Consider(*own);
  // Apart from its own port, which others may not be able to use.
  if (in_use.RemembersNone(map, key, path, need)) return best.entry();
  const bool has_own = best.entry().has_value();
  if (const fabric::PortIndex* const index = map.IndexOf(key)) {
    ConsiderIndexed(*index, path, need, taken, in_use, best);
  } else {
    const std::vector<PortEntry>& known = map.Ports(key);
    in_use.CountLookups(known.size());
    for (const PortEntry& entry : known) {
      if (entry.port < fabric::kFirstRocePort || entry.port == current) continue;
      if (is_free(entry)) best.Consider(entry);
    }
  }
  if (!best.entry() && !has_own) in_use.RememberNone(map, key, path, need);
  // With the origin, which the index does not have.
  return best.entry() ? map.Find(key, best.entry()->port) : std::nullopt;
}

}  // namespace espalier::controller
