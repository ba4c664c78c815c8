#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/event_loop.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

struct LinkMonitorOptions {
  // Hosts that must find paths over a link dead, within the window, before it is taken as down.
  std::size_t accusers = 2;
  Duration window = std::chrono::seconds(5);
  // How long a link stays down that nobody reports as up, and that hosts could not use.
  Duration hold = std::chrono::seconds(30);
  // How long a link that a feed reports as up must stay up before it is used again.
  Duration restore_after = std::chrono::seconds(2);
  // Both double with each failure that follows within `calm` of the last, up to this.
  Duration longest = std::chrono::minutes(10);
  Duration calm = std::chrono::minutes(10);
};

// Which links between switches are down, by what others than operators say: a telemetry feed, and
// hosts whose flows stand still. A feed is believed when it says down; when it says up, once the
// link has stayed up for a while. One host's silence is no death: a link is taken as down when
// several hosts find paths over it dead, none has been seen to get through since, and no other
// link of those paths is blamed by more hosts, nor one further on by as many: a switch leaves its
// own dead links by itself. As nobody can see whether such a link works again,
// it is tried again after a while. Who fails again soon waits longer (flap damping).
//
// Memory: O(links that anything was said of x hosts). Deterministic; times are given.
// Thread safety: the controller's loop thread.
class LinkMonitor {
 public:
  using Host = std::int32_t;

  explicit LinkMonitor(LinkMonitorOptions options = {}) : options_(options) {}

  // A feed says so. A link may be said to be down, or up, any number of times.
  void TakeReport(fabric::LinkId link, bool up, TimePoint now);
  // A feed said to an earlier controller that the link is down. It is, until a feed says something
  // again, or it is proven to carry packets.
  void Remember(fabric::LinkId link, TimePoint now);
  // A packet has passed the link: if it is only remembered to be down it is up again, once it has
  // stayed so for a while.
  void TakeProof(fabric::LinkId link, TimePoint now);
  std::vector<fabric::LinkId> Remembered() const;  // ascending
  // A host found a path over these links dead.
  void TakeAccusation(Host host, std::span<const fabric::LinkId> links, TimePoint now);
  // Traffic passed these links then, or later.
  void TakeWitness(std::span<const fabric::LinkId> links, TimePoint passed);
  // Witnesses are of interest.
  bool HasAccusations() const { return accused_ > 0; }

  struct Change {
    fabric::LinkId link;
    bool down = false;
    std::string_view why;  // "feed", "hosts", "restored"
  };
  // The links whose verdict has changed by now, ascending.
  std::vector<Change> Update(TimePoint now);
  bool IsDown(fabric::LinkId link) const;

 private:
  struct Entry {
    bool feed_down = false;
    bool is_remembered = false;  // down, as a feed said before the controller started
    bool is_down = false;
    std::map<Host, TimePoint> accusers;
    TimePoint witnessed{};
    TimePoint until{};        // is_down, and nothing says so any more: up again then
    TimePoint last_change{};  // of is_down
    std::uint32_t flaps = 0;
  };

  void Forget(Entry& entry, TimePoint now);
  bool IsCondemned(fabric::LinkId link, const Entry& entry) const;
  Duration Damped(Duration base, const Entry& entry) const;
  void GoDown(Entry& entry, TimePoint now);

  LinkMonitorOptions options_;
  std::map<fabric::LinkId, Entry> links_;
  // Links that were blamed together: the paths that were found dead in the window.
  struct Accusation {
    Host host = 0;
    TimePoint time;
    std::vector<fabric::LinkId> links;
  };
  std::vector<Accusation> accusations_;
  std::size_t accused_ = 0;  // links with accusers
};

}  // namespace espalier::controller
