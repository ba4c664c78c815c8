#include "deploy/lab/workload/phase_outcome.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/base/check.h"

namespace espalier::traffic {
namespace {

double Seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

double Median(std::vector<double> values) {
  const std::size_t middle = values.size() / 2;
  std::ranges::sort(values);
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

PhaseOutcome SummarisePhase(const std::vector<const BurstTime*>& bursts) {
  std::int64_t start = bursts.front()->start_ns;
  std::int64_t end = bursts.front()->end_ns;
  std::vector<double> seconds;
  for (const BurstTime* burst : bursts) {
    start = std::min(start, burst->start_ns);
    end = std::max(end, burst->end_ns);
    seconds.push_back(Seconds(burst->end_ns - burst->start_ns));
  }
  return {.seconds = Seconds(end - start),
          .slowest_burst_seconds = *std::ranges::max_element(seconds),
          .median_burst_seconds = Median(seconds)};
}

int CountNewPorts(const std::vector<std::uint16_t>& before, const std::vector<std::uint16_t>& now) {
  return static_cast<int>(std::ranges::count_if(
      now, [&](std::uint16_t port) { return std::ranges::find(before, port) == before.end(); }));
}

using BurstsByPhase = std::map<std::tuple<int, int>, std::vector<const BurstTime*>>;

PhasedOutcome SummariseJob(const PhasedJob& job, const BurstsByPhase& bursts) {
  PhasedOutcome outcome{.id = job.id};
  std::map<std::uint32_t, const BurstTime*> before;
  for (int iteration = 0; iteration < job.iterations; ++iteration) {
    IterationOutcome now;
    for (std::size_t phase = 0; phase < job.phases.size(); ++phase) {
      const auto found = bursts.find({iteration, static_cast<int>(phase)});
      if (found == bursts.end() || found->second.size() < job.phases[phase].bursts.size()) {
        return outcome;
      }
      now.phases.push_back(SummarisePhase(found->second));
      for (const BurstTime* burst : found->second) {
        const BurstTime*& last = before[burst->flow];
        if (last != nullptr) now.ports_changed += CountNewPorts(last->ports, burst->ports);
        last = burst;
      }
    }
    outcome.iterations.push_back(std::move(now));
  }
  return outcome;
}

}  // namespace

std::vector<PhasedOutcome> SummarisePhases(const Workload& workload,
                                           std::span<const HostReport> reports) {
  const std::vector<WorkloadFlow> flows = ListWorkloadFlows(workload);
  std::vector<BurstsByPhase> by_job(workload.phased_jobs.size());
  for (const HostReport& report : reports) {
    for (const BurstTime& burst : report.bursts) {
      const int job = flows.at(burst.flow).phased_job_index;
      ESPALIER_CHECK(job >= 0, "flow={}", burst.flow);
      by_job[static_cast<std::size_t>(job)][{burst.iteration, burst.phase}].push_back(&burst);
    }
  }
  std::vector<PhasedOutcome> outcomes;
  for (std::size_t j = 0; j < by_job.size(); ++j) {
    outcomes.push_back(SummariseJob(workload.phased_jobs[j], by_job[j]));
  }
  return outcomes;
}

PhasedFigures FiguresFrom(const PhasedOutcome& outcome, std::size_t from) {
  ESPALIER_CHECK(from < outcome.iterations.size(), "from={}", from);
  const std::span iterations = std::span(outcome.iterations).subspan(from);
  PhasedFigures figures;
  std::vector<double> communication(iterations.size());
  std::vector<double> medians;
  for (std::size_t phase = 0; phase < iterations[0].phases.size(); ++phase) {
    std::vector<double> slowest;
    for (std::size_t i = 0; i < iterations.size(); ++i) {
      const PhaseOutcome& now = iterations[i].phases[phase];
      communication[i] += now.seconds;
      slowest.push_back(now.slowest_burst_seconds);
      medians.push_back(now.median_burst_seconds);
    }
    figures.slowest_burst_seconds = std::max(figures.slowest_burst_seconds, Median(slowest));
  }
  figures.median_burst_seconds = Median(std::move(medians));
  figures.communication_seconds = Median(std::move(communication));
  int changed = 0;
  for (const IterationOutcome& iteration : iterations) changed += iteration.ports_changed;
  figures.ports_changed_per_iteration =
      static_cast<double>(changed) / static_cast<double>(iterations.size());
  return figures;
}

}  // namespace espalier::traffic
