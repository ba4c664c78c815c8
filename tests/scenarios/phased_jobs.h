#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "deploy/lab/workload/workload.h"
#include "tests/scenarios/sim_cluster.h"

namespace espalier::scenarios {

// Plays phased jobs on the hosts of a simulated cluster. Their connections stay open; every phase
// computes and then sends its bursts, and ends with the slowest of them. Computing varies by the
// job's jitter.
class PhasedJobs {
 public:
  // The cluster must outlive it.
  PhasedJobs(SimCluster& cluster, std::vector<traffic::PhasedJob> jobs, std::uint64_t seed);

  // Opens all connections, which are idle. The controller should be there.
  void Open();
  // Runs all iterations of all jobs. False: they take more than `limit`.
  bool Run(Duration limit);
  // Runs until each job has finished this many iterations in all; goes on where it stopped.
  bool RunUntil(int iteration, Duration limit);

  // By iteration: the time that the job's phases send.
  const std::vector<Duration>& communication(std::size_t job) const {
    return runs_[job].communication;
  }
  // By iteration: connections whose ports differ from those at the end of the iteration before.
  const std::vector<int>& ports_changed(std::size_t job) const { return runs_[job].ports_changed; }

 private:
  using Pair = std::pair<std::string, std::string>;
  struct JobRun {
    std::map<Pair, SimCluster::FlowRef> flows;  // by source and destination
    std::map<Pair, std::vector<std::uint16_t>> ports;
    std::size_t phase = 0;
    std::size_t open_bursts = 0;
    TimePoint phase_start;
    Duration sending{};  // in this iteration
    std::vector<Duration> communication;
    std::vector<int> ports_changed;
    TimerPtr timer;
  };

  int HostNumber(const std::string& name) const { return std::stoi(name.substr(1)); }
  void Compute(std::size_t job);
  void Send(std::size_t job);
  void EndPhase(std::size_t job);
  void EndIteration(std::size_t job);
  bool IsOver(std::size_t job) const;
  bool HasFinished(std::size_t job, int iterations) const {
    return runs_[job].communication.size() >= static_cast<std::size_t>(iterations);
  }

  SimCluster& cluster_;
  std::vector<traffic::PhasedJob> jobs_;
  std::vector<JobRun> runs_;
  bool has_begun_ = false;
  Random random_;
  std::unique_ptr<EventLoop> loop_;
};

}  // namespace espalier::scenarios
