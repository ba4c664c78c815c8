#include "deploy/simulation/job_player.h"

#include <algorithm>
#include <cmath>

#include "common/fabric/paths.h"

namespace espalier::simulation {
namespace {

constexpr std::uint16_t kFirstPort = 0xC000;

}  // namespace

Duration IdealCommunication(const fabric::Topology& topology,
                            const std::vector<fabric::NodeId>& nics, const PlayedJob& job) {
  double seconds = 0;
  for (const PlayedPhase& phase : job.phases) {
    std::map<std::pair<int, bool>, double> bits;  // by host, and whether it sends
    for (const Burst& burst : phase.bursts) {
      bits[{burst.source, true}] += 8.0 * static_cast<double>(burst.bytes);
      bits[{burst.destination, false}] += 8.0 * static_cast<double>(burst.bytes);
    }
    double slowest = 0;
    for (const auto& [end, sum] : bits) {
      double rate = 0;
      for (const auto link : topology.Outgoing(nics[static_cast<std::size_t>(end.first)])) {
        if (topology.LeavesHost(link))
          rate += static_cast<double>(topology.link(link.link).rate.value);
      }
      slowest = std::max(slowest, sum / rate);
    }
    seconds += slowest;
  }
  return Duration(static_cast<Duration::rep>(std::llround(1e9 * seconds)));
}

JobPlayer::JobPlayer(Cluster& cluster, std::vector<PlayedJob> jobs, std::uint64_t seed)
    : cluster_(cluster),
      jobs_(std::move(jobs)),
      runs_(jobs_.size()),
      playing_(jobs_.size()),
      random_(seed),
      loop_(cluster.world().MakeLoop()) {}

void JobPlayer::Begin() {
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    playing_[j].timer = loop_->After(jobs_[j].start, [this, j] {
      Open(j);
      BeginIteration(j);
    });
  }
}

bool JobPlayer::IsOver() const {
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    if (!IsOver(j)) return false;
  }
  return true;
}

bool JobPlayer::IsOver(std::size_t j) const {
  return runs_[j].communication.size() == static_cast<std::size_t>(jobs_[j].iterations);
}

std::vector<Cluster::FlowRef> JobPlayer::Flows() const {
  std::vector<Cluster::FlowRef> flows;
  for (const Playing& playing : playing_) {
    for (const auto& [pair, flow] : playing.flows) flows.push_back(flow);
  }
  return flows;
}

void JobPlayer::Open(std::size_t j) {
  const PlayedJob& job = jobs_[j];
  for (const PlayedPhase& phase : job.phases) {
    for (const Burst& burst : phase.bursts) {
      const auto [flow, is_new] = playing_[j].flows.try_emplace({burst.source, burst.destination});
      if (!is_new) continue;
      std::uint16_t& port = next_port_.try_emplace(burst.source, kFirstPort).first->second;
      flow->second = {burst.source,
                      cluster_.host(burst.source)
                          .Open({.destination = cluster_.host(burst.destination).address(),
                                 .job = job.id,
                                 .source_port = port,
                                 .paths = static_cast<std::uint8_t>(job.queue_pairs)})};
      playing_[j].ports[flow->first] = cluster_.AllPortsOf(flow->second);
      port = static_cast<std::uint16_t>(port + job.queue_pairs);
    }
  }
}

Duration JobPlayer::Vary(Duration time, const PlayedJob& job) {
  const double jitter = job.jitter_percent / 100.0 * (2 * random_.Fraction() - 1);
  return Duration(static_cast<Duration::rep>(static_cast<double>(time.count()) * (1 + jitter)));
}

void JobPlayer::BeginIteration(std::size_t j) {
  if (jobs_[j].period > Duration::zero()) {
    playing_[j].next_iteration = cluster_.world().Now() + Vary(jobs_[j].period, jobs_[j]);
  }
  Compute(j);
}

void JobPlayer::Compute(std::size_t j) {
  const PlayedPhase& phase = jobs_[j].phases[playing_[j].phase];
  playing_[j].timer = loop_->After(Vary(phase.compute, jobs_[j]), [this, j] { Send(j); });
}

void JobPlayer::Send(std::size_t j) {
  const PlayedPhase& phase = jobs_[j].phases[playing_[j].phase];
  runs_[j].phase_start = cluster_.world().Now();
  runs_[j].is_sending = true;
  playing_[j].open_bursts = phase.bursts.size();
  for (const Burst& burst : phase.bursts) {
    const Cluster::FlowRef& flow = playing_[j].flows.at({burst.source, burst.destination});
    cluster_.host(flow.host).SendBurst(flow.flow, burst.bytes, [this, j] {
      if (--playing_[j].open_bursts == 0) EndPhase(j);
    });
  }
}

void JobPlayer::EndPhase(std::size_t j) {
  runs_[j].sending += cluster_.world().Now() - runs_[j].phase_start;
  runs_[j].is_sending = false;
  if (++playing_[j].phase < jobs_[j].phases.size()) return Compute(j);
  EndIteration(j);
  if (IsOver(j)) return Close(j);
  const Duration pause = playing_[j].next_iteration - cluster_.world().Now();
  if (pause <= Duration::zero()) return BeginIteration(j);
  playing_[j].timer = loop_->After(pause, [this, j] { BeginIteration(j); });
}

void JobPlayer::EndIteration(std::size_t j) {
  playing_[j].phase = 0;
  runs_[j].communication.push_back(std::exchange(runs_[j].sending, {}));
  int changed = 0;
  for (const auto& [pair, flow] : playing_[j].flows) {
    std::vector<std::uint16_t> ports = cluster_.AllPortsOf(flow);
    changed += playing_[j].ports[pair] == ports ? 0 : 1;
    playing_[j].ports[pair] = std::move(ports);
  }
  runs_[j].ports_changed.push_back(changed);
}

// The last burst has ended inside a callback of its host, which allows to close flows.
void JobPlayer::Close(std::size_t j) {
  for (const auto& [pair, flow] : playing_[j].flows) cluster_.host(flow.host).Close(flow.flow);
  playing_[j].flows.clear();
}

}  // namespace espalier::simulation
