#pragma once

#include <map>
#include <string>
#include <vector>

#include "deploy/demo/phases_job.h"
#include "deploy/demo/report.h"

namespace espalier::demo {

// The runs of one scheme.
struct SchemeResult {
  std::vector<RunFigures> runs;  // one per seed
  int steered_ports = 0;
  int mismatches = 0;
};

// The runs of a workload "phases".
struct PhasesComparison {
  double link_mbps = 0;
  int seeds = 0;
  PhasesShape shape;
  IdealFigures ideal;
  std::map<std::string, SchemeResult> schemes;  // by name
};

// Both show the medians over the seeds.
std::string PhasesJson(const PhasesComparison& comparison);
std::string PhasesTable(const PhasesComparison& comparison);

}  // namespace espalier::demo
