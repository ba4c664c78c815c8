#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "agent/flows/flow_actuator.h"
#include "agent/flows/flow_source.h"
#include "agent/probe/probe_socket.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "common/sim/sim_fabric.h"

namespace espalier::sim {

// A host with one NIC in a simulated fabric: its traffic, and what an agent on it sees and does.
// The traffic does not depend on an agent.
//
// A flow takes a new port at once. In a split flow, connection i takes path i of the set, modulo
// the number of paths. Every switch and host that a probe reaches answers it (there are no ICMP
// limits), after 5 us for each hop in each direction. Dropped probes get no answer. The marks of
// probes count them, as nobody forges answers here.
// Thread safety: the loop's thread. Fabric and loop must outlive it.
class SimHost : public agent::FlowSource, public agent::FlowActuator, public agent::ProbeSocket {
 public:
  SimHost(SimFabric& fabric, EventLoop& loop, fabric::NodeId nic);

  struct Traffic {
    IpAddress destination;
    std::uint64_t bytes = 0;  // 0: the flow stays open and idle, and sends bursts
    std::string job;
    std::uint16_t source_port = 0xC000;  // own port, on plain ECMP
    std::uint8_t paths = 1;              // number of connections, with equal shares
    std::function<void()> done;          // called after the flow has ended
  };
  wire::LocalFlowId Open(Traffic traffic);
  // Makes an idle flow that was opened without bytes busy, until it has sent these (> 0). The
  // agent learns the times of both edges.
  void SendBurst(wire::LocalFlowId flow, std::uint64_t bytes, std::function<void()> done);
  // Ends a flow before it is done.
  void Close(wire::LocalFlowId flow);

  const IpAddress& address() const { return address_; }
  bool IsOpen(wire::LocalFlowId flow) const { return flows_.contains(flow); }
  SimFlowId FabricFlow(wire::LocalFlowId flow) const { return flows_.at(flow).parts.front(); }
  // One fabric flow for each connection.
  const std::vector<SimFlowId>& FabricFlows(wire::LocalFlowId flow) const {
    return flows_.at(flow).parts;
  }

  // agent::FlowSource
  std::span<const agent::FlowSample> Flows() override;
  void OnChange(std::function<void()> callback) override;
  // agent::FlowActuator
  Result<void> Apply(const wire::PathSet& paths) override;
  Result<void> Clear(wire::LocalFlowId flow) override;
  // agent::ProbeSocket
  Result<agent::ProbeMark> Send(const agent::Probe& probe) override;
  void OnReply(std::function<void(const agent::ProbeReply&)> callback) override;

 private:
  struct Flow {
    std::vector<SimFlowId> parts;
    std::size_t parts_left = 0;  // connections that are not done
    std::string job;
    std::uint16_t own_port = 0;
    TimePoint opened;
    agent::SourceEdges edges;  // of a flow that sends bursts
  };
  struct Answer {
    TimePoint due;
    agent::ProbeReply reply;
  };

  void CountEdge(Flow& flow);
  void PostChange();
  void DeliverAnswers();

  SimFabric& fabric_;
  EventLoop& loop_;
  IpAddress address_;
  std::map<wire::LocalFlowId, Flow> flows_;
  std::uint64_t next_flow_ = 1;
  std::uint32_t probes_ = 0;
  std::vector<agent::FlowSample> samples_;
  std::function<void()> on_change_;
  TimerPtr change_timer_;
  std::function<void(const agent::ProbeReply&)> on_reply_;
  std::deque<Answer> answers_;  // ascending by due
  TimerPtr answer_timer_;
};

// Returns the answer to a probe; none if the probe is dropped, or the interface that would answer
// has no address.
std::optional<agent::ProbeReply> AnswerProbe(SimFabric& fabric, const agent::Probe& probe);

}  // namespace espalier::sim
