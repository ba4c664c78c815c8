#include "deploy/demo/phase_figures.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "deploy/demo/spine_check.h"

namespace espalier::demo {
namespace {

// Flows by direction of a link: its two switches.
using Loads = std::map<std::pair<std::string, std::string>, double>;

std::string LeafOf(const lab::Lab& lab, const std::string& host) {
  const fabric::Topology& topology = lab.topology();
  const fabric::DirectedLink uplink = topology.Outgoing(*topology.FindNode(host)).front();
  return topology.node(topology.To(uplink)).id;
}

// The loads of each phase of each job in its last iteration, by job and phase.
std::map<std::pair<int, int>, Loads> LoadsOfPhases(const lab::Lab& lab,
                                                   const lab::TrafficResult& result,
                                                   std::span<const lab::FlowCount> counts) {
  const auto spines = SpinesOf(lab, counts);
  std::map<std::pair<int, int>, Loads> loads;
  for (const traffic::BurstTime& burst : result.bursts) {
    const traffic::WorkloadFlow& flow = result.flows.at(burst.flow).plan;
    const auto& job = result.phased_jobs.at(static_cast<std::size_t>(flow.phased_job_index));
    if (burst.iteration + 1 != static_cast<int>(job.iterations.size())) continue;
    const std::string from = LeafOf(lab, flow.source);
    const std::string to = LeafOf(lab, flow.destination);
    Loads& of_phase = loads[{flow.phased_job_index, burst.phase}];
    for (const std::uint16_t port : burst.ports) {
      const auto found = spines.find({flow.source, flow.destination, port});
      if (found == spines.end()) continue;  // no segment took this port
      const double share = 1.0 / static_cast<double>(burst.ports.size());
      of_phase[{from, *found->second.begin()}] += share;
      of_phase[{*found->second.begin(), to}] += share;
    }
  }
  return loads;
}

double WorstOverlap(const std::map<std::pair<int, int>, Loads>& loads) {
  std::map<int, Loads> largest;  // over a job's phases
  for (const auto& [phase, of_phase] : loads) {
    Loads& of_job = largest[phase.first];
    for (const auto& [direction, load] : of_phase) {
      of_job[direction] = std::max(of_job[direction], load);
    }
  }
  Loads sums;
  double worst = 0;
  for (const auto& [job, of_job] : largest) {
    for (const auto& [direction, load] : of_job) {
      worst = std::max(worst, sums[direction] += load);
    }
  }
  return worst;
}

}  // namespace

void SetPhaseFigures(const lab::Lab& lab, const lab::TrafficResult& result,
                     std::span<const lab::FlowCount> counts, RunFigures& figures) {
  figures.slowest_flow_seconds = 0;
  figures.median_flow_seconds = 0;
  for (const traffic::PhasedOutcome& job : result.phased_jobs) {
    if (job.iterations.empty()) continue;
    const traffic::PhasedFigures of_job = traffic::FiguresFrom(job, job.iterations.size() / 2);
    figures.slowest_flow_seconds =
        std::max(figures.slowest_flow_seconds, of_job.slowest_burst_seconds);
    figures.median_flow_seconds =
        std::max(figures.median_flow_seconds, of_job.median_burst_seconds);
    figures.allreduce_seconds[job.id] = of_job.communication_seconds;
    figures.ports_changed_per_iteration += of_job.ports_changed_per_iteration;
  }
  figures.max_link_flows = WorstOverlap(LoadsOfPhases(lab, result, counts));
}

}  // namespace espalier::demo
