#include "controller/links/link_monitor.h"

#include <algorithm>

namespace espalier::controller {

using fabric::LinkId;

namespace {

constexpr std::uint32_t kMaxDoublings = 16;

}  // namespace

void LinkMonitor::HandleFeedState(LinkId link, bool up, TimePoint now) {
  Entry& entry = links_[link];
  if (up && (entry.feed_down || entry.is_remembered)) {
    entry.until = now + Damped(options_.restore_after, entry);
  }
  entry.feed_down = !up;
  if (up) entry.feed_must_wait = false;
  entry.is_remembered = false;
  if (up) return;
  entry.proof_until.reset();
  entry.is_proved = false;
}

void LinkMonitor::RestoreDown(LinkId link, TimePoint now) {
  Entry& entry = links_[link];
  entry.is_remembered = true;
  Leave(entry, Use::kDown, now);
}

void LinkMonitor::HandleFault(LinkId link, LinkFault::Kind kind, TimePoint now) {
  Entry& entry = links_[link];
  const bool is_worse = entry.fault && entry.fault->kind == LinkFault::Kind::kDead &&
                        now - entry.fault->at < kFaultMemory;
  entry.fault = {is_worse ? LinkFault::Kind::kDead : kind, now};
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

std::vector<LinkMonitor::Question> LinkMonitor::Questions() const {
  std::vector<Question> questions;
  for (const auto& [link, entry] : links_) {
    if (entry.use == Use::kInUse || entry.feed_down) continue;
    const auto kind = entry.use == Use::kLossy ? LinkFault::Kind::kLossy : LinkFault::Kind::kDead;
    questions.push_back({link, kind, entry.last_change});
  }
  return questions;
}

std::optional<LinkMonitor::Use> LinkMonitor::WantedUse(const Entry& entry) {
  if (entry.use == Use::kDown) return std::nullopt;
  const bool is_dead = entry.fault && entry.fault->kind == LinkFault::Kind::kDead;
  if (entry.feed_down || is_dead) return Use::kDown;
  if (entry.fault && entry.use == Use::kInUse) return Use::kLossy;
  return std::nullopt;
}

std::uint32_t LinkMonitor::TierOf(LinkId link) const {
  return link.Index() < tiers_.size() ? tiers_[link.Index()] : 0;
}

// The links that fell within the window, and those that tests keep out of use.
LinkMonitor::Ledger LinkMonitor::LedgerOf(bool of_tests, const LinkPredicate& is_failed,
                                          TimePoint now) const {
  Ledger ledger;
  for (const auto& [link, entry] : links_) {
    if (!entry.spent || entry.by_tests != of_tests || (is_failed && is_failed(link))) continue;
    const bool is_held = of_tests && entry.use != Use::kInUse;
    if (!is_held && now - *entry.spent >= options_.budget_window) continue;
    ++ledger.links;
    ++ledger.of_tier[TierOf(link)];
  }
  return ledger;
}

bool LinkMonitor::HasRoom(const Ledger& ledger, LinkId link) const {
  if (options_.max_links != 0 && ledger.links >= options_.max_links) return false;
  if (tiers_.empty() || options_.max_tier_fraction <= 0) return true;
  const std::uint32_t tier = TierOf(link);
  const auto size = static_cast<double>(std::count(tiers_.begin(), tiers_.end(), tier));
  const std::size_t most =
      std::max<std::size_t>(1, static_cast<std::size_t>(options_.max_tier_fraction * size));
  const auto spent = ledger.of_tier.find(tier);
  return spent == ledger.of_tier.end() || spent->second < most;
}

void LinkMonitor::ApplyBudgets(std::map<LinkId, Use>& falling, const LinkPredicate& is_failed,
                               TimePoint now) {
  waiting_.clear();
  Ledger of_tests = LedgerOf(true, is_failed, now);
  Ledger of_feeds = LedgerOf(false, is_failed, now);
  for (auto at = falling.begin(); at != falling.end();) {
    const LinkId link = at->first;
    Entry& entry = links_[link];
    const bool by_tests = !entry.feed_down;
    // A link that has been counted, and gets worse, does not count again.
    const bool is_counted = entry.use != Use::kInUse && entry.by_tests == by_tests;
    Ledger& ledger = by_tests ? of_tests : of_feeds;
    if ((is_failed && is_failed(link)) || is_counted) {
      ++at;
    } else if (HasRoom(ledger, link) && (by_tests || !entry.feed_must_wait)) {
      entry.spent = now;
      ++ledger.links;
      ++ledger.of_tier[TierOf(link)];
      ++at;
    } else {
      entry.feed_must_wait = !by_tests;
      waiting_.insert(link);
      at = falling.erase(at);
    }
  }
}

Duration LinkMonitor::Damped(Duration base, const Entry& entry) const {
  const std::uint32_t doublings = std::min(entry.flaps, kMaxDoublings);
  return std::min(base * (std::int64_t{1} << doublings), options_.longest);
}

void LinkMonitor::Leave(Entry& entry, Use use, TimePoint now) {
  if (entry.use == Use::kInUse) {
    const bool again = entry.last_change != TimePoint{} && now - entry.last_change < options_.calm;
    entry.flaps = again ? entry.flaps + 1 : 0;
  }
  entry.last_change = now;
  entry.use = use;
  entry.until = now + Damped(options_.hold, entry);
  entry.proof_until.reset();
  entry.is_proved = false;
}

std::optional<std::string_view> LinkMonitor::WhyUsedAgain(LinkId link, Entry& entry,
                                                          const LinkPredicate& can_be_tested,
                                                          TimePoint now) {
  const bool is_due = entry.use != Use::kInUse && !entry.feed_down && !entry.is_remembered &&
                      !entry.fault && now >= entry.until;
  if (!is_due) return {};
  if (entry.is_proved) return "tests";
  if (!entry.proof_until) {
    if (!entry.by_tests && (!can_be_tested || !can_be_tested(link))) return "restored";
    entry.proof_until = entry.by_tests ? TimePoint::max() : now + options_.proof_wait;
  }
  if (now < *entry.proof_until) return {};
  return "tried";
}

std::vector<LinkMonitor::Change> LinkMonitor::Update(TimePoint now, const Knowledge& knowledge) {
  std::map<LinkId, Use> falling;
  for (auto& [link, entry] : links_) {
    if (entry.fault && now - entry.fault->at >= kFaultMemory) entry.fault.reset();
    if (const auto use = WantedUse(entry)) falling.emplace(link, *use);
  }
  ApplyBudgets(falling, knowledge.is_failed, now);
  std::vector<Change> changes;
  for (auto& [link, entry] : links_) {
    const auto fallen = falling.find(link);
    if (fallen != falling.end()) {
      Leave(entry, fallen->second, now);
      entry.by_tests = !entry.feed_down;
      changes.push_back({link, entry.use, entry.feed_down ? "feed" : "tests"});
    } else if (const auto why = WhyUsedAgain(link, entry, knowledge.can_be_tested, now)) {
      entry.use = Use::kInUse;
      entry.last_change = now;
      entry.proof_until.reset();
      changes.push_back({link, Use::kInUse, *why});
    }
  }
  std::erase_if(links_, [&](const auto& of) {
    const Entry& entry = of.second;
    return entry.use == Use::kInUse && !entry.feed_down && !entry.fault &&
           now - entry.last_change >= std::max(options_.calm, options_.budget_window);
  });
  return changes;
}

LinkMonitor::Use LinkMonitor::UseOf(LinkId link) const {
  const auto found = links_.find(link);
  return found == links_.end() ? Use::kInUse : found->second.use;
}

}  // namespace espalier::controller
