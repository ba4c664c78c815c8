#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace espalier::demo {

// One workload under one scheme. Times in seconds.
struct RunFigures {
  std::string name;    // "permutation", "two-rings"
  std::string scheme;  // "ecmp", "espalier"
  double slowest_flow_seconds = 0;
  double median_flow_seconds = 0;
  double max_link_flows = 0;   // most flows that one direction of a switch link carried
  double throughput_mbps = 0;  // bytes of all flows over the time from first start to last end
  std::map<std::string, double> allreduce_seconds;  // by job
};

// What no collision at all would give: every flow at the rate of a link.
struct IdealFigures {
  std::string name;
  double slowest_flow_seconds = 0;
  std::map<std::string, double> allreduce_seconds;
};

// A far link that dies in the middle of a job.
struct FailureFigures {
  std::string link;
  int flows_on_link = 0;
  int flows_moved = 0;  // that were waited for
  // Of these, at the operator's command, where there was one: fewer where hosts had found the link
  // before.
  std::optional<int> moved_by_operator{};
  int dead_flows = 0;  // flows that did not end
  double seconds_to_move =
      0;  // from the operator's command (else: the failure) until agents have new ports
  double seconds = 0;  // of the whole run
  // From when the flows had moved until the job ended: how often the controller was asked, and
  // after how many looks two flows shared a direction of a link between switches.
  int looks = 0;
  int looks_shared = 0;
  bool job_completed = false;
};

struct Report {
  std::string fabric;  // "4x4x4"
  double link_mbps = 0;
  int seeds = 0;
  std::vector<RunFigures> runs;  // medians over the seeds
  std::vector<IdealFigures> ideal;
  int steered_flows = 0;             // (flow, port) that agents chose and that carried data
  int spine_counter_mismatches = 0;  // of these, seen at another spine than planned
  FailureFigures failure;
};

// Each figure's median over runs of one workload under one scheme; not empty.
RunFigures MedianOf(std::span<const RunFigures> runs);

std::string ReportJson(const Report& report);
std::string ReportTable(const Report& report);

}  // namespace espalier::demo
