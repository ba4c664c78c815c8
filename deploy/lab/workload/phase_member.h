#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "deploy/lab/workload/workload.h"

namespace espalier::traffic {

// One host's part in a phased job. In each phase the host computes, sends its bursts, and waits
// until all hosts of the job are released. Pure; thread safety: one thread.
class PhaseMember {
 public:
  struct Outgoing {
    std::uint32_t flow = 0;  // WorkloadFlow::index
    std::int64_t bytes = 0;
  };
  // `bursts` has what this host sends in each phase; not empty, but its lists may be.
  PhaseMember(int iterations, std::vector<std::vector<Outgoing>> bursts);

  int iteration() const { return step_ / phase_count(); }
  int phase() const { return step_ % phase_count(); }
  // The number of phases that the host has left behind, in all iterations.
  int step() const { return step_; }
  bool IsOver() const { return iteration() >= iterations_; }

  // Ends the computing. Returns what to send now.
  std::span<const Outgoing> BeginPhase();
  // Takes the total bytes of a flow that the receiver has acknowledged. Returns true if a burst has
  // ended by this.
  bool HandleAcknowledged(std::uint32_t flow, std::int64_t total_bytes);
  // True between the end of the last burst of the phase and the release.
  bool IsWaiting() const { return is_sending_ && unfinished_ == 0; }
  // All hosts of the job have ended the phase: the next one begins with computing.
  void HandleReleased();

 private:
  int phase_count() const { return static_cast<int>(bursts_.size()); }

  const int iterations_;
  const std::vector<std::vector<Outgoing>> bursts_;
  int step_ = 0;
  bool is_sending_ = false;
  int unfinished_ = 0;                           // bursts of the phase
  std::map<std::uint32_t, std::int64_t> given_;  // total bytes by flow
  std::map<std::uint32_t, std::int64_t> acknowledged_;
};

// What a host sends in each phase of a job, by the flows of the whole workload.
std::vector<std::vector<PhaseMember::Outgoing>> BurstsOfHost(
    const PhasedJob& job, int job_index, const std::string& host,
    const std::vector<WorkloadFlow>& flows);

// All hosts of a job, in the order in which its phases name them first.
std::vector<std::string> HostsOfJob(const PhasedJob& job);

}  // namespace espalier::traffic
