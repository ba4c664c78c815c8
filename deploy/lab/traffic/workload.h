#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace espalier::traffic {

enum class Protocol { kTcp, kUdp };

// One transfer from host to host, from the start of the run on.
struct SingleFlow {
  std::string id;
  std::string job;
  std::string source;  // host names, "h0"
  std::string destination;
  std::int64_t bytes = 0;
  std::uint16_t port = 0;  // its own source port; 0: drawn from the seed
  Protocol protocol = Protocol::kTcp;
  BitsPerSecond rate;  // of UDP
  int paths = 1;       // connections that share it, each from a port of its own; TCP only
};
inline constexpr int kMaxPaths = 16;

// Hosts in ring order, each sending to the next; together they reduce `bytes` of data.
struct Ring {
  std::vector<std::string> hosts;
  std::int64_t bytes = 0;
};

// A training job: every epoch computes (a pause) and then all-reduces in all its rings.
struct Job {
  std::string id;
  int epochs = 1;
  double compute_seconds = 0;
  std::vector<Ring> rings;  // the data-parallel groups (004, section 5.1)
};

struct Workload {
  std::int64_t segment_bytes = 1'000'000;  // a new port takes effect at the next segment
  std::vector<SingleFlow> flows;
  std::vector<Job> jobs;
};

// Workload files (docs/lab.md).
// Errors: kInvalidArgument "NAME:LINE:COL: what".
Result<Workload> ParseWorkload(std::string_view text, std::string_view name);
std::string FormatWorkload(const Workload& workload);

// A flow as the hosts know it: everything of it follows from the workload, so that every host
// gives it the same number.
struct WorkloadFlow {
  std::uint32_t index = 0;
  std::string id;
  std::string job;
  std::string source;
  std::string destination;
  Protocol protocol = Protocol::kTcp;
  std::int64_t bytes = 0;            // of the whole run
  std::int64_t announced_bytes = 0;  // known of at its start: one epoch's of a ring
  std::uint16_t port = 0;
  BitsPerSecond rate;
  int paths = 1;
  int job_index = -1;  // of a ring's edge
  int ring_index = -1;
  int position = -1;  // of its source in the ring
};

// Single flows first, then the edges of all rings by job, ring and position. A ring's edge is one
// flow for all epochs, as a queue pair is; its id is "JOB/RING/SOURCE>DESTINATION".
std::vector<WorkloadFlow> ListWorkloadFlows(const Workload& workload);

// Rounds of one ring all-reduce of n hosts, and what each sends to its neighbour in one.
inline int RingRounds(std::size_t hosts) { return 2 * (static_cast<int>(hosts) - 1); }
std::int64_t ChunkBytes(const Ring& ring);

}  // namespace espalier::traffic
