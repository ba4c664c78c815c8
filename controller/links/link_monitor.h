#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/state/flow_table.h"

namespace espalier::controller {

struct LinkMonitorOptions {
  // Hosts that must report dead paths over a link within the window before it is taken as down.
  std::size_t min_reporters = 2;
  Duration window = std::chrono::seconds(5);
  // How long a link stays down after hosts found it dead, if no feed reports it as up (hold-down).
  Duration hold = std::chrono::seconds(30);
  // How long a link must stay up after a feed reports it as up before it is used again.
  Duration restore_after = std::chrono::seconds(2);
  // Both times double with each failure within `calm` of the previous change, up to `longest`.
  // After them, a link that can be probed is used again once a probe has passed it. Without an
  // answer it is used again after `proof_wait`, if a feed reports it as up, else after `longest`.
  Duration proof_wait = std::chrono::seconds(30);
  Duration longest = std::chrono::minutes(10);
  Duration calm = std::chrono::minutes(10);
  // The detection budget: how many links the reports of hosts and feeds may take out of use within
  // `budget_window`, in all and as a fraction of the links of a tier (at least one). A link that
  // only hosts reported counts for as long as it is down, so that two malicious hosts never hold
  // down more than this. 0: no limit. Eight links are a line card that fails as a whole. A dead
  // switch with more links awaits the operator, while hosts reroute around it locally.
  std::size_t max_links = 8;
  double max_tier_fraction = 0.25;
  Duration budget_window = std::chrono::minutes(1);
  // Whether flows leave links that are clearly slower than their siblings. LinkMonitor does not
  // read it.
  bool leave_slow_links = true;
};

// Decides which links between switches are down from the reports of a telemetry feed and of hosts
// whose flows make no progress.
//
// A feed is believed at once if it reports a link as down, and after the link has stayed up for a
// while if it reports it as up. One host's report is not enough: a link is taken as down when
// several hosts report dead paths over it and no delivery has been seen since. Of the links of a
// dead path, only the one that most hosts report is suspected, and of several such links the one
// furthest along the path, because a switch stops using its own dead links. Reports and deliveries
// count for one direction of a link, as optics often fail in one; a link that is dead in either is
// down as a whole. A link is used again
// after the hold-down, which doubles with each relapse (flap damping, RFC 2439), and after a probe
// has passed it, if it can be probed: a link that is up need not carry packets yet, while the
// switches still repair their routes.
//
// The detection budget limits what hosts and feeds can take out of use. A link beyond it stays in
// use and awaits the operator, who fails it or its switch. While any link awaits the operator, no
// other link is taken out of use. A link ceases to wait when the operator has failed it, or when
// all reports about it have ended.
//
// Memory: O(reported links x hosts). Deterministic: all times are arguments.
// Thread safety: the controller's loop thread.
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
  // A probe has passed the link. If the link awaited that, the next Update uses it again; if its
  // down state is only restored from the store, it is used once it has stayed up for a while.
  void ConfirmAlive(fabric::LinkId link, TimePoint now);
  // The links about which a probe would tell something: restored as down, or due to be used again
  // and not passed by a probe yet; ascending.
  std::vector<fabric::LinkId> UnconfirmedDown() const;
  // A host found a path over these links dead.
  void ReportPathFailure(AgentId host, std::span<const fabric::DirectedLink> links, TimePoint now);
  // Traffic passed these links, in these directions, at `passed` or later.
  void ReportDelivery(std::span<const fabric::DirectedLink> links, TimePoint passed);
  // There are path failure reports, so that delivery reports matter.
  bool HasPathFailures() const { return reported_directions_ > 0; }

  struct Change {
    fabric::LinkId link;
    bool down = false;
    // Down: "feed" or "hosts". Up: "probe" (one has passed it), "restored" (it cannot be probed),
    // or "tried" (no probe has passed it in time).
    std::string_view why;
  };
  using LinkQuestion = std::function<bool(fabric::LinkId)>;
  // What others know of links; none: no link.
  struct Knowledge {
    LinkQuestion is_failed;      // by an operator: it does not count against the budget
    LinkQuestion can_be_probed;  // asked once when a link is due to be used again
  };
  // Returns the links whose state has changed by `now`, ascending. O(links x hosts + failed paths).
  std::vector<Change> Update(TimePoint now, const Knowledge& knowledge = {});
  bool IsDown(fabric::LinkId link) const;
  // Links that are reported as down and stay in use, because the budget is spent.
  const std::set<fabric::LinkId>& AwaitingOperator() const { return waiting_; }

 private:
  // About one direction of a link.
  struct Evidence {
    std::map<AgentId, TimePoint> reporters;
    TimePoint delivered{};
  };
  struct Entry {
    bool feed_down = false;
    bool is_remembered = false;  // restored from the store as down
    bool is_down = false;
    std::array<Evidence, 2> evidence;  // from a to b, and back
    TimePoint until{};                 // when a link without reports that is_down is due to be used
    std::optional<TimePoint> proof_until;  // it awaits a probe, at most until then
    bool is_proved = false;                // a probe has passed it since it was due
    TimePoint last_change{};               // of is_down
    bool by_hosts = false;                 // is_down without a report of a feed
    std::optional<TimePoint> spent;        // when it last counted against the budget
    std::uint32_t flaps = 0;
  };

  static Evidence& Of(Entry& entry, fabric::DirectedLink link) {
    return entry.evidence[link.forward ? 0 : 1];
  }
  void Forget(Evidence& evidence, TimePoint now);
  // The links of which some direction is taken as dead by the reports of hosts.
  std::set<fabric::LinkId> SuspectedDown() const;
  // Removes from `falling` the links that exceed the budget; these await the operator.
  void ApplyBudget(std::set<fabric::LinkId>& falling, const LinkQuestion& is_failed, TimePoint now);
  // Why a link that is down is used again now; nothing: it is not.
  std::optional<std::string_view> WhyUsedAgain(fabric::LinkId link, Entry& entry,
                                               const LinkQuestion& can_be_probed, TimePoint now);
  std::uint32_t TierOf(fabric::LinkId link) const;
  Duration Damped(Duration base, const Entry& entry) const;
  void GoDown(Entry& entry, TimePoint now);

  LinkMonitorOptions options_;
  std::map<fabric::LinkId, Entry> links_;
  // By host: the paths (as DirectedLink::Index) that it reported as dead in the window, and when it
  // last did.
  std::map<AgentId, std::map<std::vector<std::size_t>, TimePoint>> path_failures_;
  std::size_t path_failure_count_ = 0;
  std::size_t reported_directions_ = 0;  // with reporters
  std::vector<std::uint32_t> tiers_;
  std::set<fabric::LinkId> waiting_;
};

}  // namespace espalier::controller
