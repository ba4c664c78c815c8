#pragma once

#include <cstdint>

#include "proto/messages.h"

namespace espalier::wire {

// The allowance of an agent, and the cost of a message. The controller and its agents use the same
// numbers. The controller disconnects an agent that exceeds its limits, and an agent keeps to
// kAgentShare of them. So no program can cause its host to be disconnected.

// Returns the controller's cost of handling a message, in entries of about 0.1 us (rows of a
// column, weighted by the work for a row). A message of 4 MiB may hold 16,384 rows, so neither the
// number of messages nor that of bytes measures the work.
std::int64_t CostOf(const Body& body);
// The cost of bytes that are no message.
inline constexpr std::int64_t kCostOfBadMessage = 1'000;

// What an agent may send in a second over all its connections; it may send the amount of one second
// at once. 0: no limit.
struct AgentLimits {
  // Enough for reports of flows, health and several probe orders every 10 ms, which are below
  // 1,000.
  double messages_per_second = 5'000;
  // Sixteen messages of the largest size.
  double bytes_per_second = 64 << 20;
  // An agent with 4,096 flows that all change every 10 ms, and with 100,000 probe answers a second,
  // makes about 520,000 entries; 1,200,000 entries take the loop an eighth of a second.
  double entries_per_second = 1'200'000;
};

// The part of its limits that an agent uses. The rest is for messages that arrive closer together
// than they were sent, and for a second instance after a restart.
inline constexpr double kAgentShare = 0.5;

}  // namespace espalier::wire
