#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

// Finds switches that spray: that choose the next hop of a packet not by its source port alone, but
// again for each packet or group of packets, as adaptive routing does. A port has no path there,
// and to steer means to change ports without end.
//
// A verified port that a probe sees elsewhere is a suspect, and is probed again, up to kProbes
// times in a row. It is sprayed if it changes its path kChanges times in this row. A hash that has
// changed shows one change, and a route that is lost and comes back shows two; neither gives a
// verdict. What can prove the verdict wrong is such a row without any change: while the verdict
// stands, a row is probed once a minute. A route that flaps twice within one row is taken for
// spraying until then.
//
// A host may answer probes falsely, so its verdict counts for its own flows alone. One port of each
// host and source leaf is followed at a time, so that a change of hash costs few probes.
//
// Deterministic: all times are arguments. Thread safety: none. O(log hosts) a call, TakeDue
// O(hosts that were suspects).
class SprayDetector {
 public:
  static constexpr std::size_t kProbes = 12;
  static constexpr std::size_t kChanges = 4;
  static constexpr Duration kRecheck = std::chrono::minutes(1);
  static constexpr Duration kPatience = std::chrono::seconds(20);  // with one row

  struct Port {
    fabric::PortKey key;
    std::uint16_t port = 0;
    bool operator==(const Port&) const = default;
  };
  using Sender = std::pair<fabric::NodeId, std::string>;  // source leaf, host
  struct Verdict {
    Sender sender;
    bool sprays = true;
    Port port;
    fabric::PathIndex path;  // two of the port's paths; the same if it does not spray any more
    fabric::PathIndex other;
  };

  // A probe has seen a port on this path. `before`: where it was verified before, if elsewhere.
  // True: the port is to be probed again.
  bool HandleSighting(const Sender& sender, const Port& port, fabric::PathIndex path,
                      std::optional<fabric::PathIndex> before, TimePoint now);
  // The verdicts since the last call.
  std::vector<Verdict> TakeVerdicts() { return std::exchange(verdicts_, {}); }
  // Ports that are to be probed again, as their verdict is a minute old.
  std::vector<Port> TakeDue(TimePoint now);

 private:
  struct Suspect {
    Port port;
    fabric::PathIndex path;   // where it was seen last
    fabric::PathIndex other;  // and elsewhere
    std::size_t seen = 0;     // in this row
    std::size_t changes = 0;
    bool is_probed = false;  // a row is under way
    bool sprays = false;
    TimePoint began{};  // of the last row
  };
  void Conclude(const Sender& sender, Suspect& suspect);

  std::map<Sender, Suspect> suspects_;
  std::vector<Verdict> verdicts_;
};

}  // namespace espalier::controller
