#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::offline {

// A folder with job files of the paper's authors: concurrent_jobs_J/ring_size_R/job_N-MODEL.txt.
struct PaperScenario {
  int concurrent_jobs = 0;
  int ring_size = 0;
  std::string folder;  // empty: the jobs are drawn (DrawJobs)
};
// Finds all scenarios of a folder, by number of jobs and ring size.
std::vector<PaperScenario> FindPaperScenarios(const std::string& root);
// Those that figures 4 to 6 of the paper have beyond these, with up to `most_jobs` jobs on rings of
// 2, 4 and 8: of more jobs than any published one.
std::vector<PaperScenario> ListDrawnScenarios(const std::vector<PaperScenario>& published,
                                              int most_jobs);
// Builds the paper's fabric: 64 ToRs, 32 spines, 2,048 hosts, 100 Gbit/s.
Result<fabric::Topology> BuildPaperFabric();

struct PaperRequest {
  std::string jobs;    // folder with concurrent_jobs_J/ring_size_R
  std::string output;  // folder, created if it is missing
  std::uint64_t seeds = 20;
  int most_jobs = 5;       // concurrent ones; scenarios that are not published are drawn
  std::uint64_t seed = 1;  // of the drawn jobs
  bool with_ilp = false;
  bool json = false;
};

// Simulates every scenario of the folder on the paper's fabric (64 ToRs, 32 spines, 2,048 hosts,
// 100 Gbit/s) with 0, 1, 4 and 8 failed spines under every scheme, and the drawn ones without
// failures and without the integer program, which would take hours. Writes the quality table
// (evaluation.md) and all results (evaluation.json).
// Errors: those of reading, simulating and writing; kNotFound for a folder without scenarios;
// kResourceExhausted when cancelled.
Result<void> EvaluatePaper(const PaperRequest& request, const std::function<bool()>& is_cancelled);

// Draws the paper's figures 4 to 8 (SVG) from the evaluation.json in a folder into that folder. It
// runs the program espalier-figures, which it looks for beside this program and then on the PATH.
// Errors: kUnsupported if that program or its library is missing or fails, with the reason and the
// command that draws the figures later.
Result<void> DrawFigures(const std::string& folder);

}  // namespace espalier::offline
