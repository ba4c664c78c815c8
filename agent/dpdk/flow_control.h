#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "agent/dpdk/agent_link.h"
#include "agent/dpdk/arrivals.h"
#include "agent/dpdk/flows/datapath_flow_table.h"
#include "agent/dpdk/flows/packet_steering.h"
#include "agent/dpdk/offload/offload.h"
#include "agent/dpdk/packet_activity.h"
#include "agent/dpdk/stream_matcher.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"

namespace espalier::dpdk {

struct FlowControlOptions {
  std::string agent_socket;
  // A flow without packets for so long has ended. Jobs that compute longer than this between two
  // collectives lose the ports of their flows meanwhile.
  Duration idle_flow = std::chrono::minutes(5);
};

// The control thread's half of the datapath: opens the flows that cores have found with the agent,
// reports their progress to it, and gives cores the ports that it chooses.
//
// It also tells the agent when each flow is busy (PacketActivity). If the table is full, flows that
// have been idle for long make room for new ones.
//
// To the agent such a flow is like one of a program (agent/local): it is reported, assigned a path,
// taken off dead paths, and returned to its own port when the lease ends. Without an agent, flows
// keep their own ports.
//
// Packets of a flow name the queue pair that receives it; acknowledgements name the one that sends
// it. The two are paired when several acknowledgements from the flow's destination fit the PSNs of
// this flow and of no other. Until then retransmissions are the only sign of losses. The agent is
// told the number of the sending queue pair then; by it the controller finds the flow's opposite.
//
// Queue pairs of the host to which elephants are sent answer them (Arrivals). What such a queue
// pair sends, acknowledgements in the main, is a flow too: an answering one. It is idle, has no
// bytes to send, and makes room for every flow that has. If it begins to send data, it becomes a
// flow like the others.
//
// Thread safety: one thread, the control thread of the table.
class FlowControl {
 public:
  // `device`: rewrites the flows that it can; null: cores rewrite all flows.
  FlowControl(DatapathFlowTable& table, FlowControlOptions options, DeviceRules* device,
              Metrics& metrics);

  void Handle(const FlowEvent& event, TimePoint now);
  // To be called every few milliseconds. Complexity: linear in the flows.
  void Tick(TimePoint now);

  std::size_t flows() const { return flows_.size(); }
  std::size_t arrivals() const { return arrivals_.size(); }
  std::size_t matches() const { return matcher_.size(); }

 private:
  struct Flow {
    std::uint32_t slot;
    FlowKind kind;
    std::uint16_t own_port;
    std::uint32_t first_psn;
    std::uint32_t message_bytes;
    std::uint32_t local_qpn = 0;  // 0: not known yet
    TimePoint found{};
    espalier_flow* handle = nullptr;
    std::uint64_t paths_version = 0;
    std::uint32_t packets = 0;
    PacketActivity activity;
    FlowKey acknowledgements{};  // candidate for the key of its acknowledgements
    int votes = 0;               // acknowledgements that fit the candidate
    Offload::Flow device{};
  };
  using Flows = std::unordered_map<FlowKey, Flow, FlowKeyHash>;

  void Add(const FlowEvent& event, TimePoint now);
  void HandleUnmatchedAck(const FlowEvent& event, TimePoint now);
  void HandleFound(const StreamMatcher::Found& found, TimePoint now);
  // Opens the answering flow of data that arrive.
  void AddAnswering(const StreamMatcher::Found& found, TimePoint now);
  // The flow's acknowledgements are known.
  void Pair(const FlowKey& key, Flow& flow, const FlowKey& acknowledgements);
  // The number of the flow's own queue pair is known.
  void SetLocalNumber(const FlowKey& key, Flow& flow, std::uint32_t local_qpn);
  // An answering flow sends data from now on.
  void BeginData(Flow& flow, const FlowEvent& event, TimePoint now);
  void Announce(const FlowKey& key, Flow& flow);
  void Update(const FlowKey& key, Flow& flow, TimePoint now);
  void TickStreams(TimePoint now);
  Flows::iterator Remove(Flows::iterator flow);
  // Makes room: removes the answering flow that has been idle for the longest time. Without any,
  // the flow for which the same holds, if that is long.
  void RemoveLongestIdle(TimePoint now);

  DatapathFlowTable& table_;
  const FlowControlOptions options_;
  AgentLink agent_;
  Offload offload_;
  StreamMatcher matcher_;
  Arrivals arrivals_;
  Flows flows_;
  bool changed_ = false;  // since the last Publish
  bool is_full_ = false;  // a flow was refused since the last Tick
  int unmatched_acks_left_ = 0;
  int answers_left_ = 0;
  std::size_t answering_ = 0;  // flows
  Gauge& flow_count_;
  Gauge& answering_count_;
  Gauge& connected_;
  Counter& refused_;
  Counter& restarted_;
};

}  // namespace espalier::dpdk
