#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace espalier::demo {

// The figures of one workload under one scheme. Times in seconds.
struct RunFigures {
  std::string name;    // "permutation", "two-rings", "phases"
  std::string scheme;  // "ecmp", "connections", "espalier"
  double slowest_flow_seconds = 0;
  double median_flow_seconds = 0;
  double max_link_flows = 0;  // maximum number of flows on one direction of a switch link
  // The bytes of all flows, divided by the time from the first start to the last end.
  double throughput_mbps = 0;
  std::map<std::string, double> allreduce_seconds;  // by job
  double ports_changed_per_iteration = 0;           // of phased jobs
};

// The figures without any collision: every flow at the rate of a link.
struct IdealFigures {
  std::string name;
  double slowest_flow_seconds = 0;
  std::map<std::string, double> allreduce_seconds;
};

// The figures of a far link that fails in the middle of a job.
struct FailureFigures {
  std::string link;
  int flows_on_link = 0;
  int flows_moved = 0;  // flows that had to move
  // Those moved by the operator's command, if there was one; fewer if hosts detected the failure
  // before.
  std::optional<int> moved_by_operator{};
  int dead_flows = 0;  // flows that did not complete
  // From the operator's command, or else the failure, until the agents have new ports.
  double seconds_to_move = 0;
  // Flows that stood still when they were moved, also those whose acknowledgements came over the
  // link and that their hosts rerouted, and the longest time from the move until their
  // bytes were acknowledged again, as their agents saw it.
  int flows_recovered = 0;
  double slowest_recovery_seconds = 0;
  double seconds = 0;  // of the whole run
  // From the moves until the end of the job: how often the controller was polled, and in how many
  // polls two flows shared a direction of a link between switches.
  int polls = 0;
  int polls_with_shared_link = 0;
  bool job_completed = false;
};

struct Report {
  std::string fabric;  // "4x4x4"
  double link_mbps = 0;
  int seeds = 0;
  std::vector<RunFigures> runs;  // medians over the seeds
  std::vector<IdealFigures> ideal;
  int steered_flows = 0;  // pairs of flow and port that agents chose and that carried data
  int spine_counter_mismatches = 0;  // of these, counted at another spine than assigned
  FailureFigures failure;
};

// The median of each figure over runs of one workload under one scheme; `runs` is not empty.
RunFigures MedianOf(std::span<const RunFigures> runs);

std::string ReportJson(const Report& report);
std::string ReportTable(const Report& report);

}  // namespace espalier::demo
