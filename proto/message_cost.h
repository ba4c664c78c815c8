#pragma once

#include <cstdint>

#include "proto/messages.h"

namespace espalier::wire {

// What one agent may send, and what a message takes of it. The controller and its agents use the
// same numbers: the controller sends away an agent that exceeds its limits, and an agent keeps to
// kAgentShare of them by itself, so that nothing that programs do on a host can take the host off
// its controller.

// What handling a message costs the controller, counted in entries of about 0.1 us each (rows of a
// column, weighted by the work that a row makes). A message of 4 MiB may hold 16,384 rows, so
// neither the number of messages nor that of bytes says how much work they are.
std::int64_t CostOf(const Body& body);
// Of bytes that are no message.
inline constexpr std::int64_t kCostOfBadMessage = 1'000;

// What an agent may send in a second, over all its connections; it may send one second's worth at
// once. A limit of 0 is none.
struct AgentLimits {
  // Reports every 10 ms of flows, health and several probe orders are below 1,000.
  double messages_per_second = 5'000;
  // Sixteen messages of the largest size.
  double bytes_per_second = 64 << 20;
  // An honest agent of 4,096 flows that all change every 10 ms, and that brings 100,000 answers to
  // probes besides, makes about 520,000 entries; 1,200,000 are an eighth of a second of the loop.
  double entries_per_second = 1'200'000;
};

// The part of its limits that an agent uses: the rest is for what time on the network compresses,
// and for a second instance after a restart.
inline constexpr double kAgentShare = 0.5;

}  // namespace espalier::wire
