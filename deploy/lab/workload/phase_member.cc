#include "deploy/lab/workload/phase_member.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace espalier::traffic {

PhaseMember::PhaseMember(int iterations, std::vector<std::vector<Outgoing>> bursts)
    : iterations_(iterations), bursts_(std::move(bursts)) {
  ESPALIER_CHECK(!bursts_.empty());
}

std::span<const PhaseMember::Outgoing> PhaseMember::BeginPhase() {
  ESPALIER_CHECK(!is_sending_ && !IsOver(), "step={}", step_);
  is_sending_ = true;
  const std::vector<Outgoing>& bursts = bursts_[static_cast<std::size_t>(phase())];
  for (const Outgoing& burst : bursts) given_[burst.flow] += burst.bytes;
  unfinished_ = static_cast<int>(bursts.size());
  return bursts;
}

bool PhaseMember::HandleAcknowledged(std::uint32_t flow, std::int64_t total_bytes) {
  std::int64_t& acknowledged = acknowledged_[flow];
  const bool has_ended = acknowledged < given_[flow] && total_bytes >= given_[flow];
  acknowledged = total_bytes;
  if (has_ended) --unfinished_;
  return has_ended;
}

void PhaseMember::HandleReleased() {
  ESPALIER_CHECK(IsWaiting(), "step={} unfinished={}", step_, unfinished_);
  is_sending_ = false;
  ++step_;
}

std::vector<std::vector<PhaseMember::Outgoing>> BurstsOfHost(
    const PhasedJob& job, int job_index, const std::string& host,
    const std::vector<WorkloadFlow>& flows) {
  std::vector<std::vector<PhaseMember::Outgoing>> bursts;
  for (const Phase& phase : job.phases) {
    bursts.emplace_back();
    for (const Burst& burst : phase.bursts) {
      if (burst.source != host) continue;
      const auto flow = std::ranges::find_if(flows, [&](const WorkloadFlow& candidate) {
        return candidate.phased_job_index == job_index && candidate.source == host &&
               candidate.destination == burst.destination;
      });
      ESPALIER_CHECK(flow != flows.end(), "job={} destination={}", job.id, burst.destination);
      bursts.back().push_back({flow->index, burst.bytes});
    }
  }
  return bursts;
}

std::vector<std::string> HostsOfJob(const PhasedJob& job) {
  std::vector<std::string> hosts;
  const auto add = [&](const std::string& host) {
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  };
  for (const Phase& phase : job.phases) {
    for (const Burst& burst : phase.bursts) {
      add(burst.source);
      add(burst.destination);
    }
  }
  return hosts;
}

}  // namespace espalier::traffic
