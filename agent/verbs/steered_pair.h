#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>

#include "agent/local/espalier_agent.h"
#include "agent/verbs/observer.h"
#include "agent/verbs/queue_activity.h"
#include "agent/verbs/traffic_count.h"

namespace espalier::shim {

// Shorter pauses of a queue pair are part of its busy phase. Less than the agent's own limit.
inline constexpr auto kShortPause = std::chrono::milliseconds(4);

// How the port of a queue pair in use is changed.
enum class PortChangeMethod : std::uint8_t { kNone, kSetUdpPort, kDrain };

// A queue pair that is steered. Not thread-safe.
struct SteeredPair {
  ibv_qp* pair = nullptr;
  ObservedPair* observed = nullptr;  // null: not connected yet
  ibv_qp_init_attr limits = {};
  espalier_flow_desc description = {};
  espalier_flow* flow = nullptr;  // null: no agent, or it has no room
  PortChangeMethod method = PortChangeMethod::kNone;
  std::uint16_t port = 0;        // in use
  std::uint16_t wanted = 0;      // port to change to; 0: none
  std::uint32_t timeout_us = 0;  // espalier_flow_timeout
  std::uint32_t repetitions = 0;
  std::uint64_t max_rate_bps = 0;         // set in the device; 0: no limit
  std::uint64_t wanted_max_rate_bps = 0;  // from the agent; 0: no limit
  bool rate_is_advice = false;            // the device cannot limit queue pairs
  bool draining = false;
  int drained_events = 0;  // expected from own drains, hidden from the program
  std::uint64_t seen_version = 0;
  std::uint64_t announced_bytes = 0;
  std::uint64_t posted_bytes = 0;  // since it connected
  std::uint64_t sent_bytes = 0;
  std::uint64_t opened_at_sent_bytes = 0;  // sent_bytes when the flow was opened
  TrafficCount::Reading last;
  QueueEdges edges{kShortPause};
  std::chrono::steady_clock::time_point last_traffic;

  // The program has set these attributes: passes the timeout on to the agent.
  void NoteTimeout(const ibv_qp_attr& attributes, int mask);
};

}  // namespace espalier::shim
