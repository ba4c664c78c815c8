#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/base/time/token_bucket.h"
#include "common/fabric/ecmp/path_map.h"
#include "controller/paths/models/rehash_detector.h"

namespace espalier::controller {

// A source port that a flow or an edge has.
struct UsedPort {
  fabric::PortKey key;
  std::uint16_t port = 0;
  auto operator<=>(const UsedPort&) const = default;
};

struct VerificationPace {
  Duration within = std::chrono::minutes(5);    // every port in use is verified in this time
  Duration interval = std::chrono::seconds(1);  // at least one port is verified in each
  double probes_per_second = 64;                // upper bound for the ports of one source leaf
};

// Decides which ports in use to verify now. Each source leaf has a queue of its ports, the one that
// is due first in front, and a budget of probes.
//
// A queue runs at the pace at which all its ports get their turn in three quarters of `within`, so
// probes are spread evenly in time; the rest is for ports that are asked again because nobody
// answered. A silent port is asked again after a while that doubles. Ports that are overdue, of a
// pair of leaves that is suspected, or new in use (within a sixteenth of `within`) are asked as
// fast as the budget allows.
//
// Complexity: Take is O(source leaves + ports taken x log ports), Hurry O(ports).
// Deterministic: all times are arguments. Thread safety: none.
class VerificationSchedule {
 public:
  struct Place {
    fabric::NodeId source_leaf;
    fabric::NodeId destination_leaf;
    double probes = 1;  // that verify one port
  };
  // The port is in use. To be called for each port in use, in rounds that EndRound ends.
  void Note(const UsedPort& port, const Place& place, const VerificationPace& pace, TimePoint now);
  // Forgets the ports that were not noted since the last call.
  void EndRound();

  // A probe has shown the path of this port; does nothing if it is not in use.
  void HandleAnswer(const UsedPort& port, const VerificationPace& pace, TimePoint now);
  // Makes all ports in this scope due.
  void Hurry(const RehashScope& scope, TimePoint now);
  // The ports to verify now. They count as asked.
  std::vector<UsedPort> Take(const VerificationPace& pace, TimePoint now);

  std::size_t size() const { return ports_.size(); }
  // The longest time since a port in use was verified, or taken into use if it never was. O(ports).
  Duration OldestAge(TimePoint now) const;

 private:
  struct PortHash {
    std::size_t operator()(const UsedPort& port) const {
      return std::hash<fabric::PortKey>()(port.key) * 31 + port.port;
    }
  };
  struct Record {
    Place place;
    TimePoint verified{};  // or taken into use
    TimePoint due{};
    std::uint32_t unanswered = 0;  // times asked since
    std::uint64_t round = 0;       // in which it was noted last
  };
  struct Queue {
    std::set<std::pair<TimePoint, UsedPort>> ports;  // by due
    TokenBucket budget;
    double turns = 0;  // of ports that are not due yet
    TimePoint counted{};
  };

  void SetDue(const UsedPort& port, Record& record, TimePoint due);
  void Ask(const UsedPort& port, Queue& queue, const VerificationPace& pace, TimePoint now);
  void TakeFrom(Queue& queue, const VerificationPace& pace, TimePoint now,
                std::vector<UsedPort>& taken);

  std::unordered_map<UsedPort, Record, PortHash> ports_;
  std::map<fabric::NodeId, Queue> queues_;  // by source leaf
  std::uint64_t round_ = 1;
  TimePoint last_{};  // when a port was last taken
};

}  // namespace espalier::controller
