#pragma once

#include <string>
#include <vector>

#include "controller/offline/evaluation/schemes.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// One scenario of the paper with the results of every scheme.
struct ScenarioResult {
  int concurrent_jobs = 0;
  int ring_size = 0;
  int failed_spines = 0;
  std::vector<Job> jobs;
  std::vector<SchemeRun> runs;
};

// A column of the tables: a scheme; ecmp runs with many seeds and shows the median.
struct SchemeColumn {
  std::string title;
  Algorithm algorithm;
  std::uint32_t split = 1;
};
std::vector<SchemeColumn> TableColumns(bool with_ilp);

// The runs of a column, in the order of their seeds.
std::vector<const SchemeRun*> RunsOf(const ScenarioResult& scenario, const SchemeColumn& column);

// The quality table, the loads and times of assignment, in Markdown.
std::string FormatQualityTables(const std::vector<ScenarioResult>& results, bool with_ilp);
std::string FormatResultsJson(const std::vector<ScenarioResult>& results);

}  // namespace espalier::offline
