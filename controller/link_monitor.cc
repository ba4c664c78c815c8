#include "controller/link_monitor.h"

#include <algorithm>

namespace espalier::controller {

using fabric::LinkId;

namespace {

constexpr std::uint32_t kMostDoublings = 16;
constexpr std::size_t kMostAccusations = 4'096;  // more in a window say nothing new

}  // namespace

void LinkMonitor::TakeReport(LinkId link, bool up, TimePoint now) {
  Entry& entry = links_[link];
  if (up && (entry.feed_down || entry.is_remembered)) {
    entry.until = now + Damped(options_.restore_after, entry);
  }
  entry.feed_down = !up;
  entry.is_remembered = false;
}

void LinkMonitor::Remember(LinkId link, TimePoint now) {
  Entry& entry = links_[link];
  entry.is_remembered = true;
  GoDown(entry, now);
}

void LinkMonitor::TakeProof(LinkId link, TimePoint now) {
  const auto found = links_.find(link);
  if (found == links_.end() || !found->second.is_remembered) return;
  found->second.is_remembered = false;
  found->second.until = now + Damped(options_.restore_after, found->second);
}

std::vector<LinkId> LinkMonitor::Remembered() const {
  std::vector<LinkId> links;
  for (const auto& [link, entry] : links_) {
    if (entry.is_remembered) links.push_back(link);
  }
  return links;
}

void LinkMonitor::TakeAccusation(Host host, std::span<const LinkId> links, TimePoint now) {
  if (accusations_.size() >= kMostAccusations) accusations_.erase(accusations_.begin());
  accusations_.push_back({host, now, {links.begin(), links.end()}});
  for (const LinkId link : links) {
    Entry& entry = links_[link];
    if (entry.accusers.empty()) ++accused_;
    entry.accusers.try_emplace(host, now);
  }
}

void LinkMonitor::TakeWitness(std::span<const LinkId> links, TimePoint passed) {
  for (const LinkId link : links) {
    const auto found = links_.find(link);
    if (found == links_.end()) continue;
    found->second.witnessed = std::max(found->second.witnessed, passed);
  }
}

void LinkMonitor::Forget(Entry& entry, TimePoint now) {
  if (entry.accusers.empty()) return;
  std::erase_if(entry.accusers,
                [&](const auto& accuser) { return now - accuser.second > options_.window; });
  if (entry.accusers.empty()) --accused_;
}

bool LinkMonitor::IsCondemned(LinkId link, const Entry& entry) const {
  // Something got through after it was blamed.
  const auto is_cleared = [](const Entry& of) {
    return std::any_of(of.accusers.begin(), of.accusers.end(),
                       [&](const auto& accuser) { return of.witnessed >= accuser.second; });
  };
  if (entry.accusers.size() < options_.accusers || is_cleared(entry)) return false;
  // Where another link of the same paths is blamed by more, it is that one; where by as many, the
  // one further on: a switch leaves its own dead links by itself.
  return std::none_of(accusations_.begin(), accusations_.end(), [&](const Accusation& accusation) {
    const auto& path = accusation.links;
    const auto own = std::find(path.begin(), path.end(), link);
    if (own == path.end()) return false;
    for (auto other = path.begin(); other != path.end(); ++other) {
      const auto found = links_.find(*other);
      if (found == links_.end() || is_cleared(found->second)) continue;
      const std::size_t accusers = found->second.accusers.size();
      if (accusers > entry.accusers.size()) return true;
      if (other > own && accusers == entry.accusers.size()) return true;
    }
    return false;
  });
}

Duration LinkMonitor::Damped(Duration base, const Entry& entry) const {
  const std::uint32_t doublings = std::min(entry.flaps, kMostDoublings);
  return std::min(base * (std::int64_t{1} << doublings), options_.longest);
}

void LinkMonitor::GoDown(Entry& entry, TimePoint now) {
  const bool again = entry.last_change != TimePoint{} && now - entry.last_change < options_.calm;
  entry.flaps = again ? entry.flaps + 1 : 0;
  entry.last_change = now;
  entry.is_down = true;
  entry.until = now + Damped(options_.hold, entry);
}

std::vector<LinkMonitor::Change> LinkMonitor::Update(TimePoint now) {
  std::erase_if(accusations_, [&](const Accusation& accusation) {
    return now - accusation.time > options_.window;
  });
  for (auto& [link, entry] : links_) Forget(entry, now);
  std::vector<LinkId> condemned;
  for (const auto& [link, entry] : links_) {
    if (!entry.is_down && IsCondemned(link, entry)) condemned.push_back(link);
  }
  std::vector<Change> changes;
  for (auto& [link, entry] : links_) {
    const bool by_hosts = std::binary_search(condemned.begin(), condemned.end(), link);
    if (!entry.is_down && (entry.feed_down || by_hosts)) {
      GoDown(entry, now);
      changes.push_back({link, true, entry.feed_down ? "feed" : "hosts"});
    } else if (entry.is_down && !entry.feed_down && !entry.is_remembered && now >= entry.until) {
      entry.is_down = false;
      entry.last_change = now;
      // What was said before it is tried again is of no use after.
      if (!entry.accusers.empty()) --accused_;
      entry.accusers.clear();
      changes.push_back({link, false, "restored"});
    }
  }
  std::erase_if(links_, [&](const auto& entry) {
    const Entry& of = entry.second;
    return !of.is_down && !of.feed_down && of.accusers.empty() &&
           now - of.last_change >= options_.calm;
  });
  return changes;
}

bool LinkMonitor::IsDown(LinkId link) const {
  const auto found = links_.find(link);
  return found != links_.end() && found->second.is_down;
}

}  // namespace espalier::controller
