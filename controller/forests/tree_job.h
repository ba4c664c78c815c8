#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/users/job_key.h"
#include "controller/forests/job_forest.h"
#include "controller/intents/job_spec.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The states of a job:
//   kPlanning  its forest is being computed
//   kLearning  it waits for ports of some edges; its earlier plan stays in force
//   kPushing   not all agents have acknowledged their rank plans
//   kReady     all agents have
//   kStuck     no forest can be built (`problem` has the reason); its earlier plan stays in force
enum class JobStatus { kPlanning, kLearning, kPushing, kReady, kStuck };
std::string_view JobStatusName(JobStatus status);  // "PLANNING", ...

// A forest for one job with a source port for every edge that crosses the fabric.
struct JobPlan {
  std::uint64_t version = 0;  // the same for all ranks; grows, also over restarts; 0: not in force
  std::shared_ptr<const JobForest> forest;
  std::vector<std::uint16_t> listen_ports;  // by rank: the port where its peers connect
  std::vector<std::uint16_t> ports;         // of edge(i); 0: it needs none, or has none yet
  std::deque<std::size_t> open_edges;       // still without a suitable port (EdgePorts::Choose)
  // By edge: how many ports were given up because their return path had a dead link.
  std::vector<std::uint8_t> rejected_ports;
  bool replaces_dead = false;  // a forward or return path of the plan before it is dead
  // After a link has died under a plan in force: which return paths were probed since, by edge
  // (empty: no check is pending), and whether one was found dead.
  std::vector<bool> return_path_probed;
  bool return_path_dead = false;
  bool verbs = false;                                 // over RDMA
  DecisionOrigin origin = DecisionOrigin::kReactive;  // kFailure: on a backup forest
  // RDMA only: an edge in the reverse direction, on the same path, for the acknowledgements of each
  // edge without a connection back. It needs a port of its own, or a dead spine could break the
  // connection.
  std::vector<TreeEdge> ack_edges;
  std::vector<EdgeName> reserved;  // the reservations of its edges, once in force

  // The edges of the forest, then those of `ack_edges`; `ports` has the same indices.
  const TreeEdge& edge(std::size_t index) const {
    const std::size_t count = forest->edges.size();
    return index < count ? forest->edges[index] : ack_edges[index - count];
  }
  // The destination port of the packets of an edge.
  std::uint16_t DestinationPort(const TreeEdge& edge) const {
    return verbs ? wire::kRoceV2Port : listen_ports[static_cast<std::size_t>(edge.to)];
  }
};

// A job whose collective runs on a forest, with its plans.
struct TreeJob {
  JobKey key;  // by which its ranks authenticate each other; no view or log shows it
  JobSpec spec;
  std::vector<std::uint16_t> listen_ports;  // as stored
  std::vector<fabric::NodeId> ranks;
  std::optional<JobPlan> active;
  std::optional<JobPlan> next;                  // not all its ports are chosen yet
  std::optional<TimePoint> broken_since;        // since when its plan has an unusable link
  std::string problem;                          // why there is no newer plan; "": none is needed
  std::shared_ptr<std::atomic<bool>> planning;  // cancels the forest that is being computed

  // As the ranks report.
  std::uint64_t collectives = 0;
  std::uint64_t last_bytes = 0;
  std::uint64_t last_duration_us = 0;
  std::uint64_t failures = 0;
  std::string last_failure;
};

// The path of an edge that crosses the fabric.
const fabric::Path& PathOf(const State& state, const TreeEdge::Crossing& crossing);
// All its links are UP, in the present topology or in another one. This includes the links of NICs
// to their leaves, if the host has another NIC.
bool IsUsable(const State& state, const JobPlan& plan);
bool IsUsable(const State& state, const fabric::Topology& topology, const JobPlan& plan);
bool IsAlive(const State& state, const JobPlan& plan);  // none is DOWN
// Whether each rank of a job must use a single NIC, as some agent supports no more. Older ones did
// not over verbs or with the offload service.
bool MustUseOneNic(const State& state, const JobSpec& spec, std::span<const fabric::NodeId> ranks);
// Whether the agent of a rank is known to take whole programs only, as older ones do.
bool TakesWholePrograms(const State& state, fabric::NodeId rank);
bool TakeWholePrograms(const State& state, std::span<const fabric::NodeId> ranks);  // any of them
// A job plan on this forest with these listen ports, without source ports yet.
JobPlan MakeJobPlan(const State& state, const TreeJob& job, std::shared_ptr<const JobForest> forest,
                    std::vector<std::uint16_t> listen_ports, DecisionOrigin origin);

}  // namespace espalier::controller
