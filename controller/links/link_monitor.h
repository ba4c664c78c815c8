#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/state/link_fault.h"

namespace espalier::controller {

struct LinkMonitorOptions {
  // How long a link stays out of use after a test has found it dead or lossy (hold-down).
  Duration hold = std::chrono::seconds(10);
  // How long a link must stay up after a feed reports it as up before it is used again.
  Duration restore_after = std::chrono::seconds(2);
  // Both times double with each failure within `calm` of the previous change, up to `longest`.
  // After them a link that can be tested is used again once trains have passed it. Without that, a
  // link that a feed reports as up is used again after `proof_wait`; one that tests took out of use
  // never is.
  Duration proof_wait = std::chrono::seconds(30);
  Duration longest = std::chrono::minutes(10);
  Duration calm = std::chrono::minutes(10);
  // The budgets of tests and of feeds, each: how many links they may take out of use within
  // `budget_window`, in all and as a fraction of the links of a tier (at least one). A link that
  // tests took out of use counts for as long as it is. 0: no limit. Eight links are a line card
  // that fails as a whole. The links of a dead switch with more await the operator, while hosts
  // reroute around it locally.
  std::size_t max_links = 8;
  double max_tier_fraction = 0.25;
  Duration budget_window = std::chrono::minutes(1);
};

// Decides which links between switches are out of use, from the tests of hosts (LinkTester) and the
// reports of telemetry feeds.
//
// A feed is believed at once if it reports a link as down, and after the link has stayed up for a
// while if it reports it as up. A test takes a link out of use as DEAD or LOSSY. It is used again
// after the hold-down, which doubles with each relapse (flap damping, RFC 2439), and once tests
// show that it is healthy.
//
// Two budgets limit what tests and what feeds can take out of use. A link beyond them stays in use
// and awaits the operator, until it is failed or nobody reports it any more: time alone makes no
// room for what a feed reports. Feeds never wait for tests, nor tests for feeds, nor one link for
// another.
//
// Memory: O(reported links). Deterministic: all times are arguments. Thread safety: none.
class LinkMonitor {
 public:
  // `tiers`: for each link the number of its tier. Empty: all links are in one tier of unknown
  // size, and max_tier_fraction does not apply.
  explicit LinkMonitor(LinkMonitorOptions options = {}, std::vector<std::uint32_t> tiers = {})
      : options_(options), tiers_(std::move(tiers)) {}

  // A feed reports the state of a link. Reports may repeat.
  void HandleFeedState(fabric::LinkId link, bool up, TimePoint now);
  // A feed reported to an earlier controller that the link is down. It stays so until a feed
  // reports again or ConfirmAlive is called.
  void RestoreDown(fabric::LinkId link, TimePoint now);
  // A test finds the link dead or lossy. To be repeated while it does: a report is forgotten after
  // kFaultMemory.
  void HandleFault(fabric::LinkId link, LinkFault::Kind kind, TimePoint now);
  // Tests show that the link is healthy. If the link awaited that, the next Update uses it again;
  // if its down state is only restored from the store, it is used once it has stayed up for a
  // while.
  void ConfirmAlive(fabric::LinkId link, TimePoint now);

  static constexpr Duration kFaultMemory = std::chrono::seconds(5);

  // A link about which tests would tell something: what must be shown, of trains since when.
  struct Question {
    fabric::LinkId link;
    LinkFault::Kind kind = LinkFault::Kind::kDead;
    TimePoint since{};
  };
  // The links that are out of use and are not known to be dead still; ascending.
  std::vector<Question> Questions() const;

  enum class Use : std::uint8_t { kInUse, kLossy, kDown };
  struct Change {
    fabric::LinkId link;
    Use use = Use::kInUse;
    // Out of use: "feed" or "tests". In use again: "tests" (trains have passed it), "restored" (it
    // cannot be tested), or "tried" (no train has passed it in time).
    std::string_view why;
  };
  using LinkPredicate = std::function<bool(fabric::LinkId)>;
  // What others know of links; none: no link.
  struct Knowledge {
    LinkPredicate is_failed;      // by an operator: it does not count against the budgets
    LinkPredicate can_be_tested;  // asked once when a link is due to be used again
  };
  // Returns the links whose use has changed by `now`, ascending. O(reported links).
  std::vector<Change> Update(TimePoint now, const Knowledge& knowledge = {});
  Use UseOf(fabric::LinkId link) const;
  // Links that are reported as dead or lossy and stay in use, because a budget is spent.
  const std::set<fabric::LinkId>& AwaitingOperator() const { return waiting_; }

 private:
  struct Fault {
    LinkFault::Kind kind = LinkFault::Kind::kLossy;
    TimePoint at{};
  };
  struct Entry {
    bool feed_down = false;
    bool feed_must_wait = false;  // for the operator: the budget of feeds had no room for it
    bool is_remembered = false;   // restored from the store as down
    std::optional<Fault> fault;   // that a test has found, and when it last did
    Use use = Use::kInUse;
    bool by_tests = false;                 // out of use without a report of a feed
    TimePoint until{};                     // when a link that is out of use is due to be used again
    std::optional<TimePoint> proof_until;  // it awaits a test, at most until then
    bool is_proved = false;                // tests have shown since it was due that it is healthy
    TimePoint last_change{};               // of `use`
    std::optional<TimePoint> spent;        // when it last counted against a budget
    std::uint32_t flaps = 0;
  };
  // What has been spent of a budget.
  struct Ledger {
    std::size_t links = 0;
    std::map<std::uint32_t, std::size_t> of_tier;
  };

  // The use of the link that follows from reports alone, if it is worse than the present one.
  static std::optional<Use> WantedUse(const Entry& entry);
  Ledger LedgerOf(bool of_tests, const LinkPredicate& is_failed, TimePoint now) const;
  bool HasRoom(const Ledger& ledger, fabric::LinkId link) const;
  // Removes from `falling` the links that exceed a budget; these await the operator.
  void ApplyBudgets(std::map<fabric::LinkId, Use>& falling, const LinkPredicate& is_failed,
                    TimePoint now);
  // Why a link that is out of use is used again now; nothing: it is not.
  std::optional<std::string_view> WhyUsedAgain(fabric::LinkId link, Entry& entry,
                                               const LinkPredicate& can_be_tested, TimePoint now);
  std::uint32_t TierOf(fabric::LinkId link) const;
  Duration Damped(Duration base, const Entry& entry) const;
  void Leave(Entry& entry, Use use, TimePoint now);

  LinkMonitorOptions options_;
  std::map<fabric::LinkId, Entry> links_;
  std::vector<std::uint32_t> tiers_;
  std::set<fabric::LinkId> waiting_;
};

}  // namespace espalier::controller
