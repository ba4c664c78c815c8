#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/lab/lab.h"
#include "deploy/lab/workload/phase_outcome.h"
#include "deploy/lab/workload/traffic_report.h"
#include "deploy/lab/workload/workload.h"

namespace espalier::lab {

struct TrafficOptions {
  std::uint64_t seed = 1;  // of the flows' own source ports, as plain ECMP uses them, and of jitter
  bool use_agents = false;   // announce flows to their hosts' agents and use the agents' ports
  bool needs_agents = true;  // with use_agents: whether a missing agent ends the run with an error
  std::chrono::seconds time_limit{60};
  std::string program;  // espalier-traffic; empty: beside this program, else on the PATH
  // Called about every 20 ms while the traffic runs, with the time since its start. An experiment
  // can fail a link here.
  std::function<void(std::chrono::nanoseconds)> on_running;
  // Called as often; returning true ends the run as the time limit does.
  std::function<bool()> is_over;
};

// The outcome of one flow, from the reports of both ends. Times are seconds since the run's start.
struct FlowOutcome {
  traffic::WorkloadFlow plan;
  IpAddress source;
  IpAddress destination;
  traffic::SentFlow sent;
  traffic::ReceivedFlow received;
  double start_seconds = 0;
  double end_seconds = 0;
  double Seconds() const { return end_seconds - start_seconds; }
  // True if every byte arrived, counting each segment once. (UDP: each datagram exactly once.)
  bool IsWhole() const;
};

struct JobOutcome {
  std::string id;
  std::vector<double> epoch_seconds;  // all-reduce of the slowest ring: last end - first start
  double allreduce_seconds = 0;       // mean of epoch_seconds
};

struct TrafficResult {
  bool completed = false;          // within the time limit
  double seconds = 0;              // from the start until all flows were done
  std::vector<FlowOutcome> flows;  // by WorkloadFlow::index
  std::vector<JobOutcome> jobs;
  std::vector<traffic::PhasedOutcome> phased_jobs;
  std::vector<traffic::BurstTime> bursts;  // of all phased jobs
  std::int64_t steered_bytes = 0;          // bytes sent over ports that agents chose

  double SlowestFlowSeconds() const;
  double MedianFlowSeconds() const;
  double ThroughputBps() const;  // all bytes divided by the whole time
};

// Runs a workload in a lab with one process per host, in the host's namespace. All are started
// together, and none is left behind. Returns when all flows are done or the time limit is reached,
// which is not an error: see `completed`.
// Errors: kNotFound for unknown hosts or a missing program, kUnavailable if a required agent is
// missing, kInternal if a process ends early.
Result<TrafficResult> RunTraffic(const Lab& lab, const traffic::Workload& workload,
                                 const TrafficOptions& options);

// Describes the result in a few lines of text.
std::string DescribeTrafficResult(const TrafficResult& result);
// Formats the result as JSON: {"completed":true,"seconds":...,"flows":[...],"jobs":[...],
// "phased_jobs":[...],...}
std::string FormatTrafficResult(const TrafficResult& result);

}  // namespace espalier::lab
