#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "agent/dpdk/agent_link.h"
#include "agent/dpdk/flows/datapath_flow_table.h"
#include "agent/dpdk/flows/packet_steering.h"
#include "agent/dpdk/offload/offload.h"
#include "common/base/event_loop.h"
#include "common/base/metrics.h"

namespace espalier::dpdk {

struct FlowControlOptions {
  std::string agent_socket;
  Duration idle_flow = std::chrono::seconds(10);  // without a packet it has ended
};

// The control thread's half of the datapath: opens with the agent what cores have found, tells it
// how the flows fare, and gives cores the ports that it answers with.
//
// A flow is the agent's as any program's flow is (agent/local): reported, assigned a path, taken
// off dead paths, returned to its own port when the lease runs out. Without an agent, flows keep
// their own ports.
//
// Acknowledgements name the queue pair that sends a flow, its packets the one that receives it. The
// two are put together when acknowledgements from its destination, several times, fit the PSNs of
// one flow and of no other. Until then nothing is known of losses but what is sent again.
// Thread safety: one thread, that of the table's control.
class FlowControl {
 public:
  // `device`: that is to rewrite what it can by itself; null: cores rewrite all.
  FlowControl(DatapathFlowTable& table, FlowControlOptions options, DeviceRules* device,
              Metrics& metrics);

  void Handle(const FlowEvent& event, TimePoint now);
  // To be called often: every few milliseconds. Complexity: linear in the flows.
  void Tick(TimePoint now);

  std::size_t flows() const { return flows_.size(); }

 private:
  struct Flow {
    std::uint32_t slot;
    FlowKind kind;
    std::uint16_t own_port;
    std::uint32_t first_psn;
    std::uint32_t message_bytes;
    espalier_flow* handle = nullptr;
    std::uint64_t paths_version = 0;
    std::uint32_t packets = 0;
    TimePoint last_packet;
    FlowKey acknowledgements{};  // that may be its own
    int votes = 0;               // for them
    Offload::Flow device{};
  };
  using Flows = std::unordered_map<FlowKey, Flow, FlowKeyHash>;

  void Add(const FlowEvent& event, TimePoint now);
  void HandleUnmatchedAck(const FlowEvent& event);
  void Announce(const FlowKey& key, Flow& flow);
  void Update(const FlowKey& key, Flow& flow, TimePoint now);
  Flows::iterator Remove(Flows::iterator flow);

  DatapathFlowTable& table_;
  const FlowControlOptions options_;
  AgentLink agent_;
  Offload offload_;
  Flows flows_;
  bool changed_ = false;  // since the last Publish
  int strangers_left_ = 0;
  Gauge& flow_count_;
  Gauge& connected_;
  Counter& refused_;
  Counter& restarted_;
};

}  // namespace espalier::dpdk
