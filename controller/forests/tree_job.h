#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/job_key.h"
#include "controller/forests/job_forest.h"
#include "controller/intents/job_spec.h"
#include "controller/state/state.h"

namespace espalier::controller {

//   kPlanning  its forest is being made
//   kLearning  it waits for ports of some edges; what it had before stays in force
//   kPushing   not all agents have acknowledged their ranks' plans
//   kReady     all have
//   kStuck     there is no forest for it now (`problem` says why); what it had stays in force
enum class JobStatus { kPlanning, kLearning, kPushing, kReady, kStuck };
std::string_view JobStatusName(JobStatus status);  // "PLANNING", ...

// A forest with a source port for every edge that crosses the fabric.
struct JobPlan {
  std::uint64_t version = 0;  // the same for all ranks; grows, over restarts too; 0: not in force
  std::shared_ptr<const JobForest> forest;
  std::vector<std::uint16_t> listen_ports;  // by rank: the port that it is reached at
  std::vector<std::uint16_t> ports;         // of edge(i); 0: it needs none, or has none yet
  // By edge: ports that were given up as what comes back from them meets a dead link.
  std::vector<std::uint8_t> refused;
  bool replaces_dead = false;  // the plan before it has a path that is dead, there or back
  // In force while a link has died: ways back that were asked for since, by edge (empty: there is
  // nothing to ask), and whether one was found dead.
  std::vector<bool> return_path_probed;
  bool return_path_dead = false;
  bool verbs = false;  // over RDMA
  DecisionOrigin origin =
      DecisionOrigin::kReactive;  // kFailure: its forest was ready before the failure
  // Over RDMA: the ways back of edges whose connection has none, on the same path, for
  // acknowledgements: a port must be theirs, or a dead spine could take the edge down.
  std::vector<TreeEdge> answers;
  std::vector<EdgeName> reserved;  // what its edges reserve, once in force

  // Of the forest's edges, then the answers; as many as there are ports.
  const TreeEdge& edge(std::size_t index) const {
    const std::size_t count = forest->edges.size();
    return index < count ? forest->edges[index] : answers[index - count];
  }
  // Where the messages of an edge go.
  std::uint16_t DestinationPort(const TreeEdge& edge) const {
    return verbs ? wire::kRoceV2Port : listen_ports[static_cast<std::size_t>(edge.to)];
  }
};

struct TreeJob {
  JobKey key;  // by which its ranks know one another; no view or log shows it
  JobSpec spec;
  std::vector<std::uint16_t> listen_ports;  // as stored
  std::vector<fabric::NodeId> ranks;
  std::optional<JobPlan> active;
  std::optional<JobPlan> next;            // in need of ports
  std::optional<TimePoint> broken_since;  // its plan has a link that is not usable
  std::string problem;                    // why there is no newer plan; "": there is nothing to do
  std::shared_ptr<std::atomic<bool>> planning;  // of the planning at hand: to cancel it

  // As ranks report.
  std::uint64_t collectives = 0;
  std::uint64_t last_bytes = 0;
  std::uint64_t last_duration_us = 0;
  std::uint64_t failures = 0;
  std::string last_failure;
};

// The path of an edge that crosses the fabric.
const fabric::Path& PathOf(const State& state, const TreeEdge::Crossing& crossing);
bool IsUsable(const State& state, const JobPlan& plan);  // all its links are UP
bool IsAlive(const State& state, const JobPlan& plan);   // none is DOWN
// A plan of the job's on this forest, without ports as yet, for ranks that are reached there.
JobPlan MakeJobPlan(const State& state, const TreeJob& job, std::shared_ptr<const JobForest> forest,
                    std::vector<std::uint16_t> listen_ports, DecisionOrigin origin);

}  // namespace espalier::controller
