#pragma once

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
  // Hosts that must find paths over a link dead, within the window, before it is taken as down.
  std::size_t min_reporters = 2;
  Duration window = std::chrono::seconds(5);
  // How long a link stays down that nobody reports as up, and that hosts could not use.
  Duration hold = std::chrono::seconds(30);
  // How long a link that a feed reports as up must stay up before it is used again.
  Duration restore_after = std::chrono::seconds(2);
  // Both double with each failure that follows within `calm` of the last, up to this.
  Duration longest = std::chrono::minutes(10);
  Duration calm = std::chrono::minutes(10);
  // The budget of detection: links that may be taken out of use within `budget_window` by what
  // hosts and feeds say, in all, and as a part of the links of a tier (at least one). A link that
  // only hosts blame counts for as long as it is down, so two hosts that lie never hold more than
  // this. 0: no limit. Eight is a line card's worth of links that really fail together; a dead
  // switch of more links than that waits for the operator, while hosts leave it by themselves.
  std::size_t max_links = 8;
  double max_tier_fraction = 0.25;
  Duration budget_window = std::chrono::minutes(1);
};

// Which links between switches are down, by what others than operators say: a telemetry feed, and
// hosts whose flows stand still. A feed is believed when it says down; when it says up, once the
// link has stayed up for a while. One host's silence is no death: a link is taken as down when
// several hosts find paths over it dead, none has been seen to get through since, and no other
// link of those paths is blamed by more hosts, nor one further on by as many: a switch leaves its
// own dead links by itself. As nobody can see whether such a link works again,
// it is tried again after a while. Who fails again soon waits longer (flap damping).
//
// What hosts and feeds can take out of use has a budget. A link beyond it stays in use and awaits
// the operator, who fails it or its switch; while any link waits, no other is taken out of use.
// It no longer waits when the operator has failed it, or nobody says any more that it is down.
//
// Memory: O(links that anything was said of x hosts). Deterministic; times are given.
// Thread safety: the controller's loop thread.
class LinkMonitor {
 public:
  // `tiers`: of each link a number that all links of its tier have; none: all are of one tier,
  // whose size is unknown, and max_tier_fraction does not count.
  explicit LinkMonitor(LinkMonitorOptions options = {}, std::vector<std::uint32_t> tiers = {})
      : options_(options), tiers_(std::move(tiers)) {}

  // A feed says so. A link may be said to be down, or up, any number of times.
  void HandleFeedState(fabric::LinkId link, bool up, TimePoint now);
  // A feed said to an earlier controller that the link is down. It is, until a feed says something
  // again, or it is proven to carry packets.
  void Remember(fabric::LinkId link, TimePoint now);
  // A packet has passed the link: if it is only remembered to be down it is up again, once it has
  // stayed so for a while.
  void ConfirmAlive(fabric::LinkId link, TimePoint now);
  std::vector<fabric::LinkId> Remembered() const;  // ascending
  // A host found a path over these links dead.
  void ReportPathFailure(AgentId host, std::span<const fabric::LinkId> links, TimePoint now);
  // Traffic passed these links then, or later.
  void ReportDelivery(std::span<const fabric::LinkId> links, TimePoint passed);
  // Witnesses are of interest.
  bool HasPathFailures() const { return reported_links_ > 0; }

  struct Change {
    fabric::LinkId link;
    bool down = false;
    std::string_view why;  // "feed", "hosts", "restored"
  };
  using IsFailed = std::function<bool(fabric::LinkId)>;
  // The links whose verdict has changed by now, ascending. Those that an operator has failed take
  // nothing of the budget. O(links x hosts + accusations).
  std::vector<Change> Update(TimePoint now, const IsFailed& is_failed = {});
  bool IsDown(fabric::LinkId link) const;
  // Said to be down, but in use, as the budget is spent.
  const std::set<fabric::LinkId>& AwaitingOperator() const { return waiting_; }

 private:
  struct Entry {
    bool feed_down = false;
    bool is_remembered = false;  // down, as a feed said before the controller started
    bool is_down = false;
    std::map<AgentId, TimePoint> min_reporters;
    TimePoint delivered{};
    TimePoint until{};               // is_down, and nothing says so any more: up again then
    TimePoint last_change{};         // of is_down
    bool by_hosts = false;           // is_down, and no feed has said so
    std::optional<TimePoint> spent;  // when it last took of the budget
    std::uint32_t flaps = 0;
  };

  void Forget(Entry& entry, TimePoint now);
  std::set<fabric::LinkId> SuspectedDown() const;
  // Of the links that are to go down: those that may not. They wait from now on.
  void ApplyBudget(std::set<fabric::LinkId>& falling, const IsFailed& is_failed, TimePoint now);
  std::uint32_t TierOf(fabric::LinkId link) const;
  Duration Damped(Duration base, const Entry& entry) const;
  void GoDown(Entry& entry, TimePoint now);

  LinkMonitorOptions options_;
  std::map<fabric::LinkId, Entry> links_;
  // The paths that each host found dead in the window, and when it last did: links that were blamed
  // together.
  std::map<AgentId, std::map<std::vector<fabric::LinkId>, TimePoint>> path_failures_;
  std::size_t path_failure_count_ = 0;
  std::size_t reported_links_ = 0;  // links with accusers
  std::vector<std::uint32_t> tiers_;
  std::set<fabric::LinkId> waiting_;
};

}  // namespace espalier::controller
