#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace espalier::traffic {

enum class Protocol { kTcp, kUdp };

// One transfer between two hosts.
struct SingleFlow {
  std::string id;
  std::string job;
  std::string source;  // host names, "h0"
  std::string destination;
  std::int64_t bytes = 0;
  std::uint16_t port = 0;  // its own source port; 0: drawn from the seed
  Protocol protocol = Protocol::kTcp;
  BitsPerSecond rate;        // for UDP
  int paths = 1;             // connections that share the bytes, each from its own port; TCP only
  double start_seconds = 0;  // after the run's start
  bool announced = true;     // to the agent, if there is one; else the flow is on plain ECMP
};
inline constexpr int kMaxPaths = 16;

// Hosts in ring order, each of which sends to the next; together they reduce `bytes` of data.
struct Ring {
  std::vector<std::string> hosts;
  std::int64_t bytes = 0;
};

// A training job: every epoch computes (a pause) and then runs an all-reduce in all its rings.
struct Job {
  std::string id;
  int epochs = 1;
  double compute_seconds = 0;
  std::vector<Ring> rings;  // the data-parallel groups (RLM, section 5.1)
};

// What one host sends to another in a phase, over the connections of its job between the two.
struct Burst {
  std::string source;
  std::string destination;
  std::int64_t bytes = 0;
};

// The flows of a job that are busy together, and the time that the job computes before them.
struct Phase {
  std::string name;
  double compute_seconds = 0;
  std::vector<Burst> bursts;
};

// A training job whose connections live as long as the run. Each iteration goes through the phases
// in order; a phase ends for all hosts when all its bursts have arrived.
struct PhasedJob {
  std::string id;
  // The name by which agents hear of its flows; "": the id. So several, each with a rhythm of its
  // own, are groups of one training job, as its data- and its tensor-parallel group are.
  std::string job = {};
  int iterations = 1;
  double period_seconds = 0;  // the least time from the start of one iteration to the next
  int jitter_percent = 0;     // how far the times of computing and the period vary, up and down
  int queue_pairs = 1;        // connections of each pair of hosts, which share its bytes
  // Whether the job announces the bytes that it has still to send in a phase. Programs that know
  // nothing of Espalier do not: only what they have posted and not completed is known then.
  bool announces_remaining = false;
  std::vector<Phase> phases;
};

struct Workload {
  std::int64_t segment_bytes = 1'000'000;  // a new port takes effect at the next segment
  std::vector<SingleFlow> flows;
  std::vector<Job> jobs;
  std::vector<PhasedJob> phased_jobs;
};

// Parses a workload file (docs/lab.md).
// Errors: kInvalidArgument "NAME:LINE:COL: what".
Result<Workload> ParseWorkload(std::string_view text, std::string_view name);
std::string FormatWorkload(const Workload& workload);

// A numbered flow of a workload. Everything in it follows from the workload, so that all hosts
// assign the same numbers.
struct WorkloadFlow {
  std::uint32_t index = 0;
  std::string id;
  std::string job;
  std::string source;
  std::string destination;
  Protocol protocol = Protocol::kTcp;
  std::int64_t bytes = 0;            // in the whole run
  std::int64_t announced_bytes = 0;  // announced at its start; for a ring: those of one epoch
  std::uint16_t port = 0;
  BitsPerSecond rate;
  int paths = 1;
  double start_seconds = 0;  // of a single flow
  bool announced = true;
  int job_index = -1;  // for an edge of a ring
  int ring_index = -1;
  int position = -1;                // of the source in the ring
  int phased_job_index = -1;        // for the flow of a phased job
  bool announces_remaining = true;  // else only what is posted and not completed is reported
};

// Lists single flows first, then the edges of all rings by job, ring and position, then the flows
// of phased jobs. An edge of a ring is one flow for all epochs, like a queue pair; its id is
// "JOB/RING/SOURCE>DESTINATION". A phased job has one flow for each pair of hosts, in the order in
// which its phases name them first; its id is "JOB/SOURCE>DESTINATION".
std::vector<WorkloadFlow> ListWorkloadFlows(const Workload& workload);

// The rounds of one ring all-reduce of n hosts, and the bytes that each host sends in one round.
inline int RingRounds(std::size_t hosts) { return 2 * (static_cast<int>(hosts) - 1); }
std::int64_t ChunkBytes(const Ring& ring);

}  // namespace espalier::traffic
