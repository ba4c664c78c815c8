#pragma once

#include <span>

#include "deploy/demo/report.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/lab.h"
#include "deploy/lab/run_traffic.h"

namespace espalier::demo {

// Fills in the figures of phased jobs, from the second half of their iterations, when their phases
// are known:
// - slowest_flow_seconds: the slowest phase's slowest burst, a median over the iterations;
// - median_flow_seconds: the median burst of the slowest job;
// - allreduce_seconds: the time that a job communicates in one iteration, a median;
// - ports_changed_per_iteration: of all jobs together;
// - max_link_flows: the flows on the most loaded direction of a link in the worst overlap of the
//   jobs' phases, by the spines' counters, with the paths of the last iteration. A flow of k queue
//   pairs puts 1/k on the path of each.
void SetPhaseFigures(const lab::Lab& lab, const lab::TrafficResult& result,
                     std::span<const lab::FlowCount> counts, RunFigures& figures);

}  // namespace espalier::demo
