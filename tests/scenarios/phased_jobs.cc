#include "tests/scenarios/phased_jobs.h"

#include <algorithm>
#include <utility>

namespace espalier::scenarios {

PhasedJobs::PhasedJobs(SimCluster& cluster, std::vector<traffic::PhasedJob> jobs,
                       std::uint64_t seed)
    : cluster_(cluster),
      jobs_(std::move(jobs)),
      runs_(jobs_.size()),
      random_(seed),
      loop_(cluster.world().MakeLoop()) {}

void PhasedJobs::Open() {
  std::map<std::string, std::uint16_t> next_port;  // by source
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    for (const traffic::Phase& phase : jobs_[j].phases) {
      for (const traffic::Burst& burst : phase.bursts) {
        const auto [flow, is_new] = runs_[j].flows.try_emplace({burst.source, burst.destination});
        if (!is_new) continue;
        const int host = HostNumber(burst.source);
        std::uint16_t& port = next_port.try_emplace(burst.source, 0xC000).first->second;
        flow->second = {host,
                        cluster_.host(host).Open(
                            {.destination = cluster_.host(HostNumber(burst.destination)).address(),
                             .job = jobs_[j].id,
                             .source_port = port,
                             .paths = static_cast<std::uint8_t>(jobs_[j].queue_pairs)})};
        port = static_cast<std::uint16_t>(port + jobs_[j].queue_pairs);
      }
    }
  }
}

bool PhasedJobs::Run(Duration limit) {
  int most = 0;
  for (const traffic::PhasedJob& job : jobs_) most = std::max(most, job.iterations);
  return RunUntil(most, limit);
}

bool PhasedJobs::RunUntil(int iteration, Duration limit) {
  if (!std::exchange(has_begun_, true)) {
    for (std::size_t j = 0; j < jobs_.size(); ++j) Compute(j);
  }
  return cluster_.RunUntil(
      [&] {
        for (std::size_t j = 0; j < jobs_.size(); ++j) {
          if (!HasFinished(j, std::min(iteration, jobs_[j].iterations))) return false;
        }
        return true;
      },
      limit);
}

bool PhasedJobs::IsOver(std::size_t j) const { return HasFinished(j, jobs_[j].iterations); }

void PhasedJobs::Compute(std::size_t j) {
  const traffic::Phase& phase = jobs_[j].phases[runs_[j].phase];
  const double jitter = jobs_[j].jitter_percent / 100.0 * (2 * random_.Fraction() - 1);
  runs_[j].timer =
      loop_->After(Duration(static_cast<Duration::rep>(1e9 * phase.compute_seconds * (1 + jitter))),
                   [this, j] { Send(j); });
}

void PhasedJobs::Send(std::size_t j) {
  JobRun& run = runs_[j];
  const traffic::Phase& phase = jobs_[j].phases[run.phase];
  run.phase_start = cluster_.world().Now();
  run.open_bursts = phase.bursts.size();
  for (const traffic::Burst& burst : phase.bursts) {
    const SimCluster::FlowRef& flow = run.flows.at({burst.source, burst.destination});
    cluster_.host(flow.host).SendBurst(flow.flow, static_cast<std::uint64_t>(burst.bytes),
                                       [this, j] {
                                         if (--runs_[j].open_bursts == 0) EndPhase(j);
                                       });
  }
}

void PhasedJobs::EndPhase(std::size_t j) {
  JobRun& run = runs_[j];
  run.sending += cluster_.world().Now() - run.phase_start;
  if (++run.phase == jobs_[j].phases.size()) EndIteration(j);
  if (!IsOver(j)) Compute(j);
}

void PhasedJobs::EndIteration(std::size_t j) {
  JobRun& run = runs_[j];
  run.phase = 0;
  run.communication.push_back(std::exchange(run.sending, {}));
  int changed = 0;
  for (const auto& [pair, flow] : run.flows) {
    std::vector<std::uint16_t> ports = cluster_.AllPortsOf(flow);
    changed += run.ports[pair] == ports ? 0 : 1;
    run.ports[pair] = std::move(ports);
  }
  run.ports_changed.push_back(changed);
}

}  // namespace espalier::scenarios
