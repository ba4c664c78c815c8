#include "controller/links/link_monitor.h"

#include <algorithm>

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::LinkId;

namespace {

constexpr std::uint32_t kMaxDoublings = 16;
// Limits on the dead paths that are kept within a window: more add no information.
constexpr std::size_t kMaxFailedPaths = 4'096;
constexpr std::size_t kMaxFailedPathsOfHost = 128;

}  // namespace

void LinkMonitor::HandleFeedState(LinkId link, bool up, TimePoint now) {
  Entry& entry = links_[link];
  if (up && (entry.feed_down || entry.is_remembered)) {
    entry.until = now + Damped(options_.restore_after, entry);
  }
  entry.feed_down = !up;
  entry.is_remembered = false;
  if (up) return;
  entry.proof_until.reset();
  entry.is_proved = false;
}

void LinkMonitor::RestoreDown(LinkId link, TimePoint now) {
  Entry& entry = links_[link];
  entry.is_remembered = true;
  GoDown(entry, now);
}

void LinkMonitor::ConfirmAlive(LinkId link, TimePoint now) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  Entry& entry = found->second;
  entry.is_proved = entry.is_remembered || entry.proof_until.has_value();
  if (!entry.is_remembered) return;
  entry.is_remembered = false;
  entry.until = now + Damped(options_.restore_after, entry);
}

std::vector<LinkId> LinkMonitor::UnconfirmedDown() const {
  std::vector<LinkId> links;
  for (const auto& [link, entry] : links_) {
    const bool awaits_proof = entry.proof_until.has_value() && !entry.is_proved;
    if (entry.is_remembered || awaits_proof) links.push_back(link);
  }
  return links;
}

void LinkMonitor::ReportPathFailure(AgentId host, std::span<const DirectedLink> links,
                                    TimePoint now) {
  auto& own = path_failures_[host];
  std::vector<std::size_t> path;
  for (const DirectedLink link : links) path.push_back(link.Index());
  if (const auto known = own.find(path); known != own.end()) {
    known->second = now;
  } else if (own.size() < kMaxFailedPathsOfHost && path_failure_count_ < kMaxFailedPaths) {
    own.emplace(path, now);
    ++path_failure_count_;
  } else {
    return;
  }
  for (const DirectedLink link : links) {
    Evidence& evidence = Of(links_[link.link], link);
    if (evidence.reporters.empty()) ++reported_directions_;
    evidence.reporters.try_emplace(host, now);
  }
}

void LinkMonitor::ReportDelivery(std::span<const DirectedLink> links, TimePoint passed) {
  for (const DirectedLink link : links) {
    const auto found = links_.find(link.link);
    if (found == links_.end()) continue;
    Evidence& evidence = Of(found->second, link);
    evidence.delivered = std::max(evidence.delivered, passed);
  }
}

void LinkMonitor::Forget(Evidence& evidence, TimePoint now) {
  if (evidence.reporters.empty()) return;
  std::erase_if(evidence.reporters,
                [&](const auto& reporter) { return now - reporter.second > options_.window; });
  if (evidence.reporters.empty()) --reported_directions_;
}

std::set<LinkId> LinkMonitor::SuspectedDown() const {
  // Traffic passed the link after a report.
  const auto is_cleared = [](const Evidence& of) {
    return std::any_of(of.reporters.begin(), of.reporters.end(),
                       [&](const auto& reporter) { return of.delivered >= reporter.second; });
  };
  std::map<std::size_t, std::size_t> reporter_counts;  // by DirectedLink::Index
  std::set<std::size_t> suspected;
  for (const auto& [link, entry] : links_) {
    for (const bool forward : {true, false}) {
      const Evidence& evidence = entry.evidence[forward ? 0 : 1];
      if (evidence.reporters.empty() || is_cleared(evidence)) continue;
      const std::size_t index = DirectedLink{link, forward}.Index();
      reporter_counts[index] = evidence.reporters.size();
      const bool is_enough = evidence.reporters.size() >= options_.min_reporters;
      if (!entry.is_down && is_enough) suspected.insert(index);
    }
  }
  // Of each dead path only one link is suspected: the one that most hosts report, and of several
  // such links the one furthest along the path, because a switch stops using its own dead links.
  for (const auto& [host, paths] : path_failures_) {
    for (const auto& [path, time] : paths) {
      std::size_t most = 0;
      for (const std::size_t link : path) {
        const auto found = reporter_counts.find(link);
        if (found != reporter_counts.end()) most = std::max(most, found->second);
      }
      bool is_beyond = true;  // the loop, from the end of the path, has not met the suspect yet
      for (auto link = path.rbegin(); link != path.rend(); ++link) {
        const auto found = reporter_counts.find(*link);
        if (found == reporter_counts.end()) continue;
        const bool is_to_blame = is_beyond && found->second == most;
        if (is_to_blame) is_beyond = false;
        if (!is_to_blame) suspected.erase(*link);
      }
    }
  }
  std::set<LinkId> links;
  for (const std::size_t index : suspected) links.insert(DirectedLink::FromIndex(index).link);
  return links;
}

std::uint32_t LinkMonitor::TierOf(LinkId link) const {
  return link.Index() < tiers_.size() ? tiers_[link.Index()] : 0;
}

// Counts the links that have used the budget: those that fell within the window, and those that
// only hosts hold down. Each falling link passes while neither the total nor the part of its tier
// is used up. Links that an operator has failed pass without using the budget. While a link waits,
// no other one passes, so that a burst of false reports stops at the budget.
void LinkMonitor::ApplyBudget(std::set<LinkId>& falling, const LinkQuestion& is_failed,
                              TimePoint now) {
  const auto confirmed = [&](LinkId link) { return is_failed && is_failed(link); };
  std::erase_if(waiting_, [&](LinkId link) { return !falling.contains(link) || confirmed(link); });
  std::size_t spent = 0;
  std::map<std::uint32_t, std::size_t> spent_of_tier;
  for (const auto& [link, entry] : links_) {
    if (!entry.spent || confirmed(link)) continue;
    const bool counts =
        now - *entry.spent < options_.budget_window || (entry.is_down && entry.by_hosts);
    if (!counts) continue;
    ++spent;
    ++spent_of_tier[TierOf(link)];
  }
  const auto has_room = [&](LinkId link) {
    const std::uint32_t tier = TierOf(link);
    const auto size = static_cast<double>(std::count(tiers_.begin(), tiers_.end(), tier));
    const std::size_t most =
        std::max<std::size_t>(1, static_cast<std::size_t>(options_.max_tier_fraction * size));
    const bool tier_has =
        tiers_.empty() || options_.max_tier_fraction <= 0 || spent_of_tier[tier] < most;
    return tier_has && (options_.max_links == 0 || spent < options_.max_links);
  };
  for (auto link = falling.begin(); link != falling.end();) {
    if (confirmed(*link)) {
      ++link;
    } else if (waiting_.empty() && has_room(*link)) {
      links_[*link].spent = now;
      ++spent;
      ++spent_of_tier[TierOf(*link)];
      ++link;
    } else {
      waiting_.insert(*link);
      link = falling.erase(link);
    }
  }
}

Duration LinkMonitor::Damped(Duration base, const Entry& entry) const {
  const std::uint32_t doublings = std::min(entry.flaps, kMaxDoublings);
  return std::min(base * (std::int64_t{1} << doublings), options_.longest);
}

void LinkMonitor::GoDown(Entry& entry, TimePoint now) {
  const bool again = entry.last_change != TimePoint{} && now - entry.last_change < options_.calm;
  entry.flaps = again ? entry.flaps + 1 : 0;
  entry.last_change = now;
  entry.is_down = true;
  entry.until = now + Damped(options_.hold, entry);
  entry.proof_until.reset();
  entry.is_proved = false;
}

std::optional<std::string_view> LinkMonitor::WhyUsedAgain(LinkId link, Entry& entry,
                                                          const LinkQuestion& can_be_probed,
                                                          TimePoint now) {
  if (!entry.is_down || entry.feed_down || entry.is_remembered || now < entry.until) return {};
  if (entry.is_proved) return "probe";
  if (!entry.proof_until) {
    if (!can_be_probed || !can_be_probed(link)) return "restored";
    entry.proof_until = now + (entry.by_hosts ? options_.longest : options_.proof_wait);
  }
  if (now < *entry.proof_until) return {};
  return "tried";
}

std::vector<LinkMonitor::Change> LinkMonitor::Update(TimePoint now, const Knowledge& knowledge) {
  for (auto& [host, paths] : path_failures_) {
    path_failure_count_ -=
        std::erase_if(paths, [&](const auto& path) { return now - path.second > options_.window; });
  }
  std::erase_if(path_failures_, [](const auto& of) { return of.second.empty(); });
  for (auto& [link, entry] : links_) {
    for (Evidence& evidence : entry.evidence) Forget(evidence, now);
  }
  std::set<LinkId> falling = SuspectedDown();
  for (const auto& [link, entry] : links_) {
    if (!entry.is_down && entry.feed_down) falling.insert(link);
  }
  ApplyBudget(falling, knowledge.is_failed, now);
  std::vector<Change> changes;
  for (auto& [link, entry] : links_) {
    if (falling.contains(link)) {
      GoDown(entry, now);
      entry.by_hosts = !entry.feed_down;
      changes.push_back({link, true, entry.feed_down ? "feed" : "hosts"});
    } else if (const auto why = WhyUsedAgain(link, entry, knowledge.can_be_probed, now)) {
      entry.is_down = false;
      entry.last_change = now;
      entry.proof_until.reset();
      // Reports from before the link is tried again do not count afterwards.
      for (Evidence& evidence : entry.evidence) {
        if (!evidence.reporters.empty()) --reported_directions_;
        evidence.reporters.clear();
      }
      changes.push_back({link, false, *why});
    }
  }
  std::erase_if(links_, [&](const auto& entry) {
    const Entry& of = entry.second;
    const bool is_reported = std::ranges::any_of(
        of.evidence, [](const Evidence& evidence) { return !evidence.reporters.empty(); });
    return !of.is_down && !of.feed_down && !is_reported &&
           now - of.last_change >= std::max(options_.calm, options_.budget_window);
  });
  return changes;
}

bool LinkMonitor::IsDown(LinkId link) const {
  const auto found = links_.find(link);
  return found != links_.end() && found->second.is_down;
}

}  // namespace espalier::controller
