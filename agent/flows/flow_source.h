#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/ip_address.h"
#include "proto/messages.h"

namespace espalier::agent {

// One of the connections or queue pairs that a flow is split over, known by its port; several may
// have the same.
struct PortProgress {
  std::uint16_t source_port = 0;
  std::uint64_t outstanding_bytes = 0;
  std::uint64_t sent_bytes = 0;  // since it had this port
  std::uint32_t retries = 0;     // likewise
};

// One flow of this host, as its source sees it now.
struct FlowSample {
  wire::LocalFlowId id;
  std::string job;
  IpAddress source;
  IpAddress destination;
  std::uint8_t protocol = wire::kProtocolUdp;
  std::uint16_t destination_port = wire::kRoceV2Port;
  std::uint16_t source_port = 0;  // in use now; 0 unknown
  std::uint32_t local_qpn = 0;
  std::uint32_t remote_qpn = 0;
  std::uint8_t max_paths = 1;
  bool movable = true;
  TimePoint first_seen;
  // Bytes: below 2^63 each, whatever a program says.
  std::uint64_t remaining_bytes = 0;
  std::uint64_t outstanding_bytes = 0;
  std::uint64_t sent_bytes = 0;  // since it was opened; rates are differences of it
  std::uint32_t retries = 0;     // since it was opened
  std::uint32_t rtt_us = 0;      // 0 unknown
  // Of a flow that is split, where the source sees its parts; else empty.
  std::vector<PortProgress> ports;
  // What an agent before this one had it take and is still in force, as the program says; no paths
  // where there is no such thing, and once this agent has said something else.
  wire::PathSet kept;
};

// Where an agent learns of the flows of its host: queue pairs, sockets, announcements by the
// programs themselves. Ids are never reused by one source.
// Thread safety: the agent's loop thread.
class FlowSource {
 public:
  virtual ~FlowSource() = default;
  // All open flows, ascending by id; valid until the next call.
  virtual std::span<const FlowSample> Flows() = 0;
  // Called (posted on the loop) when a flow opens or ends; progress is found by looking.
  virtual void OnChange(std::function<void()> callback) = 0;
};

}  // namespace espalier::agent
