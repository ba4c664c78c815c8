#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/paths/path_learner.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Two NICs between which probe trains are sent, in this direction.
struct TestPair {
  fabric::NodeId source;
  fabric::NodeId destination;
  fabric::DirectedLink uplink;    // of the source
  fabric::DirectedLink downlink;  // to the destination
  std::span<const fabric::Path> paths;
  std::uint32_t first_route = 0;
  std::uint32_t route_count = 0;
  std::uint32_t first_path = 0;
  std::uint32_t stride = 1;  // from the first one, every so many of the paths are routes
};

// Knows which source ports probe trains need to take which paths.
//
// A NIC has partners under other switches, at distances of 1, 2, 4, ... switches in both directions
// (all other switches if there are few), and trains go both ways between partners. Each path of a
// pair is a route; of a pair with very many paths, every so many of them. Their ports are learned
// as those of flows are, for a destination port of their own, which no program uses. A port whose
// path is in doubt since links have changed is verified before it is used again.
//
// Memory: O(NICs x log switches x paths). Thread safety: the controller's loop thread. The
// references must outlive it.
class TestRoutes {
 public:
  static constexpr std::uint16_t kDestinationPort = 4'820;
  static constexpr std::size_t kMostRoutesOfPair = 64;

  // `hashes_protocol`: ports of TCP take other paths than those of UDP, and are known only where a
  // hash model covers them.
  TestRoutes(const State& state, PathLearner& learner, bool hashes_protocol);

  std::size_t size() const { return route_count_; }
  std::span<const TestPair> pairs() const { return pairs_; }
  const TestPair& PairOf(std::uint32_t route) const { return pairs_[pair_of_[route]]; }
  std::span<const fabric::DirectedLink> HopsOf(std::uint32_t route) const;
  // The routes over a directed link between switches, ascending.
  std::span<const std::uint32_t> Over(fabric::DirectedLink link) const {
    return over_[link.Index()];
  }
  // The pairs whose source is this NIC.
  std::span<const std::uint32_t> From(fabric::NodeId nic) const { return from_[nic.Index()]; }
  // Whether all routes over the first link cross the second one, too, or one of these links.
  bool AreSeries(fabric::DirectedLink first, fabric::DirectedLink second,
                 const std::function<bool(fabric::LinkId)>& is_out = {}) const;

  // The port of this protocol by which a train takes the route; none: it is not known now.
  std::optional<std::uint16_t> PortOf(std::uint32_t route, std::uint8_t protocol) const;
  fabric::PortKey KeyOf(std::uint32_t route, std::uint8_t protocol) const;
  // The routes of a key's port, which takes another path than was known.
  std::vector<std::uint32_t> RoutesOf(const fabric::PortKey& key) const;

  // Reads the ports of some pairs whose ends are both ready, and has missing ones learned, in turn.
  // Returns whether probes were requested. To be called periodically.
  bool Refresh(TimePoint now, const std::function<bool(fabric::NodeId)>& is_ready);

 private:
  struct Ports {
    std::uint16_t udp = 0;
    std::uint16_t tcp = 0;
  };

  void MakePairs();
  // `place`: of the source among the NICs of its switch.
  void AddPair(fabric::NodeId source, fabric::NodeId destination, std::uint32_t place);
  fabric::PathIndex PathOf(std::uint32_t route) const;
  bool ReadPorts(std::uint32_t pair, TimePoint now);

  const State& state_;
  PathLearner& learner_;
  const bool hashes_protocol_;
  std::vector<TestPair> pairs_;
  std::vector<std::uint32_t> pair_of_;            // by route
  std::vector<Ports> ports_;                      // by route
  std::vector<TimePoint> asked_;                  // by pair: when ports were last requested
  std::vector<std::vector<std::uint32_t>> over_;  // by DirectedLink::Index
  std::vector<std::vector<std::uint32_t>> from_;  // by node
  std::uint32_t route_count_ = 0;
  std::uint32_t next_pair_ = 0;
};

}  // namespace espalier::controller
