#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/result.h"
#include "common/fabric/ecmp_hash.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "common/graph/max_min.h"

namespace espalier::sim {

using SimFlowId = StrongId<struct SimFlowTag, std::uint64_t>;

// A fabric at the level of flows: every switch forwards by hashing among its own live links
// towards the destination, and flows share the links max-min fairly. It is a world of its own:
// what it does is told to nobody but by the flows' progress and the answers to probes.
//
// A switch sees when one of its own links is DOWN and hashes over the others; a link further on
// that is down it does not see, and flows that it sends there stand still until their source port
// or the link changes.
//
// Progress is exact between two events (rates are constant there). Bits are counted in doubles:
// exact to a byte up to 2^53 bits a flow and event.
// Thread safety: the loop's thread. Complexity: a change of flows or links costs one water-filling
// (O(flows x hops x log)), once for all changes of one instant.
class SimFabric {
 public:
  // The topology as it really is; a controller has its own idea of it. The loop must outlive this.
  // Errors: those of MakeEcmpHash, naming the switch; kInvalidArgument for a switch without `ecmp`.
  static Result<std::unique_ptr<SimFabric>> Build(EventLoop& loop, fabric::Topology topology);

  const fabric::Topology& topology() const { return topology_; }

  // Where a packet goes: the hops behind the source's leaf, up to the destination's leaf if it
  // arrives, else up to where it is dropped.
  struct Route {
    std::vector<fabric::DirectedLink> hops;
    bool arrives = false;
  };
  Route Trace(const fabric::FlowTuple& tuple);

  // A flow of so many bytes begins; done is posted when the last one has arrived.
  SimFlowId Start(const fabric::FlowTuple& tuple, std::uint64_t bytes, std::function<void()> done);
  // It ends before it is done (or after). Ids are not reused.
  void Stop(SimFlowId flow);
  // What is still to be sent goes out with this port.
  void SetSourcePort(SimFlowId flow, std::uint16_t port);
  void SetLink(fabric::LinkId link, fabric::LinkState state);

  // Do switches and hosts answer probes (sim_host.h)? They do at first.
  void SetAnswersProbes(bool answers) { answers_probes_ = answers; }
  bool answers_probes() const { return answers_probes_; }

  struct Progress {
    std::uint64_t sent_bytes = 0;
    std::uint64_t remaining_bytes = 0;
    double rate_bps = 0;        // now
    bool stands_still = false;  // its packets are dropped
  };
  Progress ProgressOf(SimFlowId flow) const;
  const fabric::FlowTuple& TupleOf(SimFlowId flow) const { return flows_.at(flow).tuple; }

  // Flows that pass each direction of each link between switches, by DirectedLink::Index(); those
  // that stand still count up to where they are dropped.
  std::vector<int> LinkFlows();
  std::size_t flow_count() const { return flows_.size(); }

 private:
  struct Flow {
    fabric::FlowTuple tuple;
    std::vector<std::uint32_t> links;  // indices of directed links, with the hosts' own
    bool arrives = false;
    double bits = 0;       // in all
    double sent_bits = 0;  // up to advanced_to_
    double rate_bps = 0;
    std::function<void()> done;
  };

  SimFabric(EventLoop& loop, fabric::Topology topology);
  std::vector<fabric::DirectedLink> Members(fabric::NodeId at, fabric::NodeId destination_leaf);
  void Lay(Flow& flow);
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
  TimerPtr update_;  // something has changed
  TimerPtr next_end_;
};

}  // namespace espalier::sim
