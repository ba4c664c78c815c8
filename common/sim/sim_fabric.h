#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/ecmp/ecmp_hash.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "common/graph/max_min.h"
#include "common/sim/link_troubles.h"

namespace espalier::sim {

using SimFlowId = StrongId<struct SimFlowTag, std::uint64_t>;

// Simulates a fabric at the level of flows: each switch forwards by hashing among its own working
// links towards the destination, and flows share the links max-min fairly. Its state shows only in
// the progress of flows and in probe answers, as in a real fabric.
//
// A switch sees when one of its own links is DOWN, and hashes over the others. It does not see
// links further away. Flows that it sends towards a link that is down make no progress until their
// source port or the link changes.
//
// Rates are constant between two events, so progress is exact. Bits are counted in doubles: exact
// to a byte up to 2^53 bits for a flow and event.
// Thread safety: the loop's thread. Complexity: all changes of flows and links at one instant cost
// one water-filling (O(flows x hops x log)).
class SimFabric {
 public:
  // `topology` is the real one, which may differ from the controller's. The loop must outlive the
  // fabric.
  // Errors: those of MakeEcmpHash, naming the switch; kInvalidArgument for a switch without `ecmp`.
  static Result<std::unique_ptr<SimFabric>> Build(EventLoop& loop, fabric::Topology topology);

  const fabric::Topology& topology() const { return topology_; }

  // The route of a packet: the hops after the source's leaf, up to the destination's leaf if the
  // packet arrives, else up to the switch that drops it.
  struct Route {
    std::vector<fabric::DirectedLink> hops;
    bool arrives = false;
  };
  Route Trace(const fabric::FlowTuple& tuple);

  // Starts a flow of this size; `done` is posted when its last byte has arrived.
  SimFlowId Start(const fabric::FlowTuple& tuple, std::uint64_t bytes, std::function<void()> done);
  // Gives a flow that is done further bytes to send; `done` is posted when the last has arrived.
  void Continue(SimFlowId flow, std::uint64_t bytes, std::function<void()> done);
  // Ends a flow, whether it is done or not. Ids are not reused.
  void Stop(SimFlowId flow);
  // Sends the rest of the flow from this port.
  void SetSourcePort(SimFlowId flow, std::uint16_t port);
  void SetLink(fabric::LinkId link, fabric::LinkState state);
  // Gives a switch's hash another seed, as a restart of the switch may.
  // Errors: those of MakeEcmpHash.
  Result<void> SetHashSeed(fabric::NodeId node, std::uint64_t seed);

  // What single packets meet on the links, those of hosts included (Carry). Flows and the answers
  // to probes do not notice it.
  LinkTroubles& troubles() { return troubles_; }
  // What happens to a single packet from NIC to NIC. Requires: addresses of NICs.
  Transit Carry(const fabric::FlowTuple& tuple, std::uint8_t dscp);
  // The directed link from a NIC to its leaf, or back; none if it has several uplinks, which are
  // hops of routes.
  std::optional<fabric::DirectedLink> Uplink(const IpAddress& nic) const;
  std::optional<fabric::DirectedLink> Downlink(const IpAddress& nic) const;

  // Sets whether switches and hosts answer probes (sim_host.h); initially they do.
  void SetAnswersProbes(bool answers) { answers_probes_ = answers; }
  bool answers_probes() const { return answers_probes_; }

  struct Progress {
    std::uint64_t sent_bytes = 0;
    std::uint64_t remaining_bytes = 0;
    double rate_bps = 0;        // current rate
    bool stands_still = false;  // its packets are dropped
  };
  Progress ProgressOf(SimFlowId flow) const;
  const fabric::FlowTuple& TupleOf(SimFlowId flow) const { return flows_.at(flow).tuple; }

  // Returns the number of flows in each direction of each link between switches, by
  // DirectedLink::Index(). Dropped flows count up to the switch that drops them.
  std::vector<int> LinkFlows();
  std::size_t flow_count() const { return flows_.size(); }

 private:
  struct Flow {
    fabric::FlowTuple tuple;
    std::vector<std::uint32_t> links;  // indices of directed links, those of hosts included
    bool arrives = false;
    double bits = 0;       // total size
    double sent_bits = 0;  // up to advanced_to_
    double rate_bps = 0;
    std::function<void()> done;
  };

  SimFabric(EventLoop& loop, fabric::Topology topology);
  std::vector<fabric::DirectedLink> Members(fabric::NodeId at, fabric::NodeId destination_leaf);
  void UpdateRoute(Flow& flow);
  void RequestUpdate();
  void Update();
  double SentBits(const Flow& flow, TimePoint now) const;
  void AdvanceTo(TimePoint now);

  EventLoop& loop_;
  fabric::Topology topology_;
  fabric::PathTable paths_;
  std::vector<std::unique_ptr<fabric::EcmpHash>> hashes_;  // by node; null for hosts
  std::vector<double> capacities_bps_;                     // by directed link
  std::map<SimFlowId, Flow> flows_;
  std::uint64_t next_flow_ = 1;
  TimePoint advanced_to_;
  graph::MaxMin max_min_;
  bool answers_probes_ = true;
  LinkTroubles troubles_;
  TimerPtr update_;  // set after a change
  TimerPtr next_end_;
};

}  // namespace espalier::sim
