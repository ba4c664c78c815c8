#pragma once

#include <map>
#include <set>
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

  // Waits until links have changed since the last call and returns the changes, ascending. Before
  // the first call, all links count as up.
  Result<std::vector<LinkChange>> Next();

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
  void SetState(const Interface& interface, bool up);

  const fabric::Topology* topology_;
  std::vector<Switch> switches_;
  std::map<Interface, fabric::LinkId> links_;  // by interface, both ends
  std::set<Interface> down_;
  std::set<fabric::LinkId> changed_;  // links that may have changed since the last report
  std::set<fabric::LinkId> told_down_;
};

}  // namespace espalier::lab
