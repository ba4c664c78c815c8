#include "controller/offline/evaluation/phase_gain.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::offline {
namespace {

constexpr double kLeastGain = 1.01;

// Why a job is not faster when paths are assigned for phases.
std::string Reason(const SchemeRun& connections, const SchemeRun& phases,
                   std::span<const Job> jobs) {
  const auto has_one_phase = [](const Job& job) { return job.phases.size() == 1; };
  if (std::ranges::all_of(jobs, has_one_phase)) {
    return "every job has one phase, in which all its connections are busy";
  }
  if (connections.overlap.load <= phases.overlap.load) {
    return fmt::format(
        "when all connections count, no link carries more than {} flows in the worst overlap "
        "either",
        connections.overlap.load.ToString());
  }
  return fmt::format(
      "links that carry {} flows instead of {} in the worst overlap did not delay the jobs",
      connections.overlap.load.ToString(), phases.overlap.load.ToString());
}

}  // namespace

std::optional<PhaseGain> ComparePhases(std::span<const SchemeRun> runs, std::span<const Job> jobs) {
  const auto find = [runs](Algorithm algorithm) {
    return std::ranges::find_if(
        runs, [algorithm](const SchemeRun& run) { return run.scheme.algorithm == algorithm; });
  };
  const auto connections = find(Algorithm::kConnections);
  const auto phases = find(Algorithm::kPhases);
  if (connections == runs.end() || phases == runs.end()) return std::nullopt;
  PhaseGain gain;
  std::string list;
  bool gains = false;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const double factor =
        connections->outcome.jobs[j].allreduce_seconds / phases->outcome.jobs[j].allreduce_seconds;
    gain.factors.push_back(factor);
    gains = gains || factor >= kLeastGain;
    list += fmt::format("{}{} {:.2f}", j == 0 ? "" : ", ", jobs[j].id, factor);
  }
  gain.text =
      gains ? fmt::format("Phases against connections: communication is {} times as fast.", list)
            : fmt::format("Phases gain nothing against connections ({} times as fast): {}.", list,
                          Reason(*connections, *phases, jobs));
  return gain;
}

}  // namespace espalier::offline
