#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/time/event_loop.h"
#include "common/base/users/user_budget.h"
#include "proto/messages.h"

namespace espalier::agent {

// Progress of one connection or queue pair of a split flow, identified by its port. Several may
// have the same port.
struct PortProgress {
  std::uint16_t source_port = 0;
  std::uint64_t outstanding_bytes = 0;
  std::uint64_t sent_bytes = 0;  // since it has this port
  std::uint32_t retries = 0;     // since it has this port
};

// The changes of a flow between busy and idle (edges), as its source sees them. Pauses of any
// length may or may not count.
struct SourceEdges {
  // Since it was opened. Odd: busy; even: idle; 2: idle since it was opened. 0: the source does not
  // tell.
  std::uint32_t count = 0;
  TimePoint last;      // time of the last edge; may be wrong, as programs claim it
  Duration between{};  // from the edge before it to the last edge
};

// How a transport waits: until it repeats what is not acknowledged (0: unknown; the largest value:
// so long or longer), and how often it repeats it.
struct TransportWait {
  std::uint32_t timeout_us = 0;
  std::uint32_t repetitions = 0;
};

// The user of a flow whose source does not know it.
inline constexpr std::uint32_t kUnknownUser = UINT32_MAX;

// How a program has announced a flow.
struct Announcement {
  std::uint32_t user = kUnknownUser;  // of its process, as the kernel says
  bool path_fixed = false;            // the controller must not choose its path: a rank plan has it
  bool is_alone = false;              // a queue pair that belongs to no group of queue pairs
};

// The state of one flow of this host when it was sampled.
struct FlowSample {
  wire::LocalFlowId id;
  Announcement announced;
  BudgetOwner user = 0;  // who announced it
  std::string job;
  IpAddress source;
  IpAddress destination;
  std::uint8_t protocol = wire::kProtocolUdp;
  std::uint16_t destination_port = wire::kRoceV2Port;
  std::uint16_t source_port = 0;  // in use; 0: unknown
  std::uint32_t local_qpn = 0;
  std::uint32_t remote_qpn = 0;
  std::uint8_t max_paths = 1;
  bool movable = true;
  bool keeps_rate = false;     // something enforces the rate limit of its path set
  bool keeps_weights = false;  // it sends over its paths in proportion to their weights
  TimePoint first_seen;
  // Byte counts are below 2^63 each, whatever a program claims.
  std::uint64_t remaining_bytes = 0;
  std::uint64_t outstanding_bytes = 0;
  std::uint64_t sent_bytes = 0;  // since it was opened
  std::uint32_t retries = 0;     // since it was opened
  std::uint32_t rtt_us = 0;      // 0: unknown
  TransportWait wait;
  SourceEdges edges;
  // The subflows of a split flow if the source sees them; else empty.
  std::vector<PortProgress> ports;
  // The paths that an earlier agent gave the flow and that are still in force, as the program
  // reports them. Empty if there are none, and after this agent has given the flow other paths.
  wire::PathSet kept;
};

// Tells the agent which flows its host has: queue pairs, sockets, or announcements by the programs
// themselves. A source never reuses an id.
// Thread safety: the agent's loop thread.
class FlowSource {
 public:
  virtual ~FlowSource() = default;
  // Returns all open flows, ascending by id; valid until the next call.
  virtual std::span<const FlowSample> Flows() = 0;
  // Sets what is called (posted on the loop) when a flow opens or ends. Progress has to be polled.
  virtual void OnChange(std::function<void()> callback) = 0;
};

}  // namespace espalier::agent
