#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/lab/lab.h"
#include "deploy/lab/traffic/traffic_report.h"
#include "deploy/lab/traffic/workload.h"

namespace espalier::lab {

struct TrafficOptions {
  std::uint64_t seed = 1;   // of the source ports that flows have of their own: "ECMP"
  bool use_agents = false;  // announce flows to the agents of their hosts, take their ports
  std::chrono::seconds time_limit{60};
  std::string program;  // espalier-traffic; empty: beside this program, else on the PATH
  // Called about every 20 ms while the traffic runs, with the time since its start: where an
  // experiment fails a link.
  std::function<void(std::chrono::nanoseconds)> on_running;
  // Asked as often; true ends the run as the time limit does.
  std::function<bool()> is_over;
};

// One flow, its two ends' reports put together. Times are seconds since the start of the run.
struct FlowOutcome {
  traffic::WorkloadFlow plan;
  IpAddress source;
  IpAddress destination;
  traffic::SentFlow sent;
  traffic::ReceivedFlow received;
  double start_seconds = 0;
  double end_seconds = 0;
  double Seconds() const { return end_seconds - start_seconds; }
  // Every byte arrived, each segment counted once. (UDP: all datagrams, none twice.)
  bool IsWhole() const;
};

struct JobOutcome {
  std::string id;
  std::vector<double> epoch_seconds;  // the slowest ring's all-reduce: last end - first start
  double allreduce_seconds = 0;       // their mean
};

struct TrafficResult {
  bool completed = false;          // within the time limit
  double seconds = 0;              // from the start until all was done
  std::vector<FlowOutcome> flows;  // by WorkloadFlow::index
  std::vector<JobOutcome> jobs;
  std::int64_t steered_bytes = 0;  // that went over ports chosen by agents

  double SlowestFlowSeconds() const;
  double MedianFlowSeconds() const;
  double ThroughputBps() const;  // all bytes over the whole time
};

// Runs a workload in a lab: one process a host in the host's namespace, all started together,
// none left behind whatever happens. Returns when all flows are done or the time is over, which
// is not an error: see `completed`.
// Errors: kNotFound for unknown hosts or a missing program, kUnavailable where an agent is wanted
// and missing, kInternal if a process ends early.
Result<TrafficResult> RunTraffic(const Lab& lab, const traffic::Workload& workload,
                                 const TrafficOptions& options);

// {"completed":true,"seconds":...,"flows":[...],"jobs":[...],...}
std::string FormatTrafficResult(const TrafficResult& result);

}  // namespace espalier::lab
