#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace espalier::controller {

// What the history keeps of one moment. Loads and uses of links are codes of one byte, so that
// hours of a large fabric fit into memory.

// The load planned on a direction of a link, relative to the fastest link. Below 8 the code counts
// sixteenths, rounded up; above, steps of 4.4 %, up to 1,960. A load above 0 never becomes 0.
std::uint8_t EncodeLoad(double load);
double DecodeLoad(std::uint8_t code);
// The traffic of a direction of a link as a part of its rate, in 250ths, up to 1.02. Traffic above
// 0 never becomes 0.
std::uint8_t EncodeUse(double use);
double DecodeUse(std::uint8_t code);

// One link; [0] is the direction from its end a to its end b. States are ordered from the best to
// the worst, as ShownLinkState is.
struct LinkRecord {
  std::array<std::uint8_t, 2> load;  // EncodeLoad
  std::array<std::uint8_t, 2> use;   // EncodeUse
  std::uint8_t state;
  bool operator==(const LinkRecord&) const = default;
};

// One job. Rounds are those that ended since the record before.
struct JobRecord {
  std::uint32_t job;  // JobDirectory::Intern
  std::uint32_t flows;
  std::uint32_t without_path;  // of them
  std::uint32_t rounds;
  float bps;
  float slowest_bps;      // of the flows that send
  float round_seconds;    // the mean; 0 without rounds
  float ideal_seconds;    // the mean of what they would have taken without contention
  float longest_seconds;  // of these rounds
};

// One flow that was sending. A flow is told from others by all of the first five.
struct FlowRecord {
  static constexpr std::size_t kMostHops = 8;

  std::uint32_t job;    // JobDirectory::Intern
  std::int32_t source;  // nodes of the topology
  std::int32_t destination;
  std::uint16_t port;  // its source port
  std::uint8_t protocol;
  std::uint8_t status;  // FlowStatus
  float bps;
  std::uint8_t hops;  // of its first path between the leaves; a longer path has none
  std::array<std::int32_t, kMostHops> path;  // fabric::DirectedLink::Index of each
};

// The fabric as a whole. Moves, failures, actions and rounds are those since the record before.
struct FabricRecord {
  float bps = 0;                  // of all flows
  float max_load = 0;             // planned, of the most loaded direction between switches
  float fair_load = 0;            // the lower bound: no assignment has a smaller maximum load
  float max_use = 0;              // of the most used direction of a link, as a part of its rate
  std::int32_t most_loaded = -1;  // index of the link; -1: none carries load
  std::int32_t most_used = -1;
  std::uint32_t flows = 0;
  std::uint32_t without_path = 0;
  std::uint32_t on_dead_links = 0;
  std::uint32_t agents = 0;     // connected
  std::uint32_t links_off = 0;  // links that are not up
  std::uint32_t moves = 0;      // pushed decisions
  std::uint32_t failures = 0;   // events of links and nodes that failed
  std::uint32_t actions = 0;    // events of what operators have done
  std::uint32_t rounds = 0;     // of all jobs
  float round_excess = 0;   // the largest duration of a round relative to its ideal; 0: no round
  std::uint8_t health = 0;  // FabricHealth::Word
};

}  // namespace espalier::controller
