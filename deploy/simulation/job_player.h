#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "deploy/simulation/cluster.h"

namespace espalier::simulation {

// What one host sends to another in a phase, over the connections of its job between the two.
struct Burst {
  int source = 0;  // number of the host in the cluster
  int destination = 0;
  std::uint64_t bytes = 0;  // > 0
};

// The bursts of a job that are sent together, and the time that the job computes before them.
struct PlayedPhase {
  Duration compute{};
  std::vector<Burst> bursts;  // at most one of each pair of hosts
};

// A training job whose connections live from its start to its end. Each iteration goes through the
// phases in order; a phase ends for all hosts when all its bursts have arrived.
struct PlayedJob {
  std::string id;
  Duration start{};   // when it opens its connections and begins its first iteration
  Duration period{};  // the least time from the start of one iteration to the next
  int iterations = 1;
  int jitter_percent = 0;  // how far the times of computing and the period vary, up and down
  int queue_pairs = 1;     // connections of each pair of hosts, which share its bytes
  std::vector<PlayedPhase> phases;
};

// The time in which the job's bursts of one iteration could be sent at best: phase by phase, what
// the busiest NIC has to send or receive, at the NIC's rate.
Duration IdealCommunication(const fabric::Topology& topology,
                            const std::vector<fabric::NodeId>& nics, const PlayedJob& job);

// Plays jobs on the hosts of a simulated cluster.
// Thread safety: one thread. Complexity: a callback for each phase and each burst.
class JobPlayer {
 public:
  // The cluster must outlive it. The seed determines the jitter.
  JobPlayer(Cluster& cluster, std::vector<PlayedJob> jobs, std::uint64_t seed);

  // Starts every job at its time, counted from now. Call once.
  void Begin();
  // Whether all jobs have done their iterations.
  bool IsOver() const;

  struct JobRun {
    std::vector<Duration> communication;  // by iteration: the time in which its phases sent
    // By iteration: connections (pairs of hosts) whose ports differ from those at the end of the
    // iteration before.
    std::vector<int> ports_changed;
    Duration sending{};  // in the iteration that goes on
    bool is_sending = false;
    TimePoint phase_start;  // if it is sending
  };
  const std::vector<PlayedJob>& jobs() const { return jobs_; }
  const JobRun& run(std::size_t job) const { return runs_[job]; }
  // The open connections of all jobs.
  std::vector<Cluster::FlowRef> Flows() const;

 private:
  using Pair = std::pair<int, int>;
  struct Playing {
    std::map<Pair, Cluster::FlowRef> flows;  // by source and destination
    std::map<Pair, std::vector<std::uint16_t>> ports;
    std::size_t phase = 0;
    std::size_t open_bursts = 0;
    TimePoint next_iteration;  // not before
    TimerPtr timer;
  };

  void Open(std::size_t job);
  void BeginIteration(std::size_t job);
  void Compute(std::size_t job);
  void Send(std::size_t job);
  void EndPhase(std::size_t job);
  void EndIteration(std::size_t job);
  void Close(std::size_t job);
  bool IsOver(std::size_t job) const;
  Duration Vary(Duration time, const PlayedJob& job);

  Cluster& cluster_;
  const std::vector<PlayedJob> jobs_;
  std::vector<JobRun> runs_;
  std::vector<Playing> playing_;
  Random random_;
  std::unique_ptr<EventLoop> loop_;
  std::map<int, std::uint16_t> next_port_;  // by source
};

}  // namespace espalier::simulation
