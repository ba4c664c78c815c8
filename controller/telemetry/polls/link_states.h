#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "common/fabric/topology.h"
#include "controller/telemetry/controller_feed.h"
#include "controller/telemetry/polls/port_readings.h"

namespace espalier::telemetry {

// The states of links by those of the ports at their ends, and which of them the controller has yet
// to hear of.
//
// A link is down if one of its ports is, by any source; else up if one is up; else unknown. A state
// is reported when it differs from the last one that the controller accepted; an unknown one never
// is. It is wrong while a switch reports a port as down that carries packets: the controller takes
// the link out of use, within its budget, until the port is up again.
//
// The controller refuses a report as a whole. After that reports become smaller, until the state
// that it refuses is alone and is left out. Thread safety: none. Memory: O(links).
class LinkStates {
 public:
  static constexpr std::size_t kMostOfReport = 64;
  using LinkState = ControllerFeed::LinkState;

  explicit LinkStates(std::size_t links) : links_(links) {}

  // One port of the link changes its state, in the eyes of one source.
  void HandlePort(fabric::LinkId link, PortState from, PortState to);
  // The next states to report: first those that are down.
  std::vector<LinkState> Due() const;
  // The controller accepted, or refused, this report. Without an answer its states stay due.
  void HandleAccepted(const std::vector<LinkState>& report);
  void HandleRefused(const std::vector<LinkState>& report);

  PortState Of(fabric::LinkId link) const;

 private:
  struct Ports {
    int up = 0;
    int down = 0;
    std::optional<bool> accepted;  // whether up, by the last report
  };
  void UpdateDue(fabric::LinkId link);

  std::vector<Ports> links_;
  std::set<fabric::LinkId> due_;
  std::size_t most_of_report_ = kMostOfReport;
};

}  // namespace espalier::telemetry
