#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/fabric/topology.h"
#include "deploy/lab/lab.h"

namespace espalier::lab {

// A change of a link between switches: it went down or came up.
struct LinkChange {
  fabric::LinkId link;
  bool up = false;
  bool operator==(const LinkChange&) const = default;
};

// How much a link between switches has carried in one direction since the last measurement.
struct LinkLoad {
  fabric::DirectedLink link;
  double bps = 0;
};

// Watches the switches of a lab as a telemetry collector does: each reports at once when one of its
// interfaces goes down or comes up (rtnetlink). A link is up while both ends are up and have a
// carrier.
//
// Thread safety: one thread.
class LinkWatch {
 public:
  // Moves the calling process, which must have one thread, permanently into the lab's namespaces:
  // it ends with the lab. `lab` must outlive this.
  // Errors: kUnavailable if the lab is gone, kPermissionDenied, kInternal.
  static Result<LinkWatch> Start(const Lab& lab);

  // Makes Next measure the loads of links at this interval, from the counters of the switches'
  // interfaces (what they sent, with Ethernet headers).
  void MeasureLoads(std::chrono::milliseconds interval);

  // Waits until links have changed since the last call and returns the changes, ascending. Before
  // the first call, all links count as up. Empty: loads have been measured.
  Result<std::vector<LinkChange>> Next();
  // The loads of the last measurement, ascending; then none until the next one.
  std::vector<LinkLoad> TakeLoads();

 private:
  struct Switch {
    fabric::NodeId node;
    UniqueFd events;
  };
  // An interface of a switch, which is one end of a link.
  using Interface = std::pair<fabric::NodeId, std::string>;

  explicit LinkWatch(const fabric::Topology& topology);

  Result<void> Follow(fabric::NodeId node);
  // Reads all pending events of a switch.
  Result<void> TakeEvents(const Switch& source);
  // Takes the state and the counters of an interface out of an event.
  void TakeInterface(const Switch& source, std::span<const std::byte> payload);
  // Reads all counters, and computes loads_ from the second call on.
  Result<void> Measure();
  // The milliseconds until the next measurement; -1: there is none.
  int UntilMeasurement() const;
  void SetState(const Interface& interface, bool up);

  const fabric::Topology* topology_;
  std::vector<Switch> switches_;
  std::map<Interface, fabric::LinkId> links_;  // by interface, both ends
  std::set<Interface> down_;
  std::set<fabric::LinkId> changed_;  // links that may have changed since the last report
  std::set<fabric::LinkId> told_down_;
  using Clock = std::chrono::steady_clock;
  struct Sent {
    std::uint64_t bytes = 0;
    Clock::time_point read{};
  };
  std::map<Interface, Sent> sent_;         // the latest counters
  std::map<Interface, Sent> sent_before_;  // those of the last measurement
  std::optional<std::chrono::milliseconds> interval_;
  Clock::time_point next_measurement_{};
  std::vector<LinkLoad> loads_;
};

}  // namespace espalier::lab
