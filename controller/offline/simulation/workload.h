#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// A connection as routing sees it. It is numbered over all jobs, in the order of their first use.
// Exchanges of different phases of a job that have the same source and destination share it.
struct SimulatedFlow {
  std::uint32_t job = 0;
  std::uint32_t exchange = 0;  // the first that uses it, as its job numbers them from 0
  fabric::NodeId source;
  fabric::NodeId destination;
  fabric::Attachment source_attachment;
  fabric::Attachment destination_attachment;

  // Appends the directed links from NIC to NIC of a path with these hops.
  void AppendLinks(std::span<const std::uint32_t> hops, std::vector<std::uint32_t>& links) const;
};

// An exchange whose flows are connections of the workload.
struct SimulatedExchange {
  std::uint32_t job = 0;
  std::uint32_t phase = 0;
  std::int64_t round_bytes = 0;
  int rounds = 1;
  std::vector<std::uint32_t> flows;  // numbers, in the order of the exchange
};

// The fabric and the jobs on it.
class Workload {
 public:
  // Errors: kInvalidArgument for a NIC that is not attached to a switch, a job without phases, a
  // phase without exchanges, an exchange without flows, bytes or rounds, no epochs, or no jobs.
  static Result<Workload> Build(const fabric::Topology& topology, std::vector<Job> jobs);

  const fabric::Topology& topology() const { return *topology_; }
  std::span<const Job> jobs() const { return jobs_; }
  std::span<const SimulatedFlow> flows() const { return flows_; }
  // Of all jobs, in the order of jobs and phases.
  std::span<const SimulatedExchange> exchanges() const { return exchanges_; }
  // The number of the first exchange of a phase; those of a phase follow one another.
  std::uint32_t FirstExchange(std::uint32_t job, std::uint32_t phase) const {
    return first_exchange_[job][phase];
  }
  // The connections of each phase of a job, ascending.
  std::vector<std::vector<std::uint32_t>> PhasesOf(std::uint32_t job) const;

 private:
  Result<void> AddJob(const fabric::PathTable& paths, std::uint32_t job);
  Result<void> CheckNics(const fabric::PathTable& paths, const Job& job,
                         const Exchange::Flow& flow) const;

  const fabric::Topology* topology_ = nullptr;
  std::vector<Job> jobs_;
  std::vector<SimulatedFlow> flows_;
  std::vector<SimulatedExchange> exchanges_;
  std::vector<std::vector<std::uint32_t>> first_exchange_;  // by job and phase
};

}  // namespace espalier::offline
