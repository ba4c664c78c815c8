#include "agent/flows/guard/path_sampler.h"

#include <algorithm>
#include <utility>

namespace espalier::agent {
namespace {

// Claims get this part of the room that others have.
constexpr std::size_t kPartOfClaims = 4;

// Whether the paths of the set get different parts of a flow that keeps to them.
bool IsDivided(const FlowSample& sample, const wire::PathSet& set) {
  return sample.keeps_weights && std::ranges::any_of(set.paths, [&](const wire::FlowPath& path) {
           return path.weight != set.paths.front().weight;
         });
}

std::uint64_t PlannedRate(const wire::PathSet& set, const wire::FlowPath& path) {
  double sum = 0;
  for (const wire::FlowPath& each : set.paths) sum += each.weight;
  return static_cast<std::uint64_t>(static_cast<double>(set.max_rate_bps) * path.weight /
                                    std::max(sum, 1.0));
}

}  // namespace

PathSampler::PathSampler(PathSamplerOptions options, const PortTable& ports, OnSample on_sample)
    : options_(std::move(options)),
      ports_(ports),
      on_sample_(std::move(on_sample)),
      sockets_(options_.transports) {}

void PathSampler::HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows) {
  sockets_.HandleMeasures(now, flows, ports_);
  if (!last_) last_ = now;  // nothing is measured yet
  const Duration span = now - *last_;
  if (span < options_.interval) return;
  last_ = now;
  health_.flows.clear();
  std::vector<Subject> subjects = FindSubjects(flows);
  CountDevices(subjects);
  std::vector<Claims> present;
  std::vector<Vote> seen;
  std::vector<Vote> claimed;
  for (const Subject& subject : subjects) {
    const Claims claims = ClaimsOf(subject);
    const Claims* const before = FindBefore(claims.flow, claims.port);
    present.push_back(claims);
    wire::FlowHealth health = Describe(subject, claims, before);
    const FlowMeasure& flow = *subject.flow;
    if (IsDivided(*flow.sample, *subject.set)) {
      const bool is_busy = flow.busy && flow.state == wire::FlowState::kActive && claims.is_busy;
      if (!claims.is_seen || !is_busy || before == nullptr || !before->is_busy) continue;
      const std::uint64_t sent =
          claims.sent_bytes > before->sent_bytes ? claims.sent_bytes - before->sent_bytes : 0;
      health.achieved_bps = static_cast<std::uint64_t>(
          std::min(9e18, 8.0 * static_cast<double>(sent) / std::max(SecondsOf(span), 1e-6)));
      health.planned_bps = PlannedRate(*subject.set, *subject.path);
      health_.flows.push_back(health);
    } else if (health.retries > 0) {
      auto& votes = health.basis == wire::PathBasis::kClaimed ? claimed : seen;
      votes.push_back({PayerOf(*flow.sample), health});
    }
  }
  before_ = std::move(present);
  Add(seen, kMostVotes, kMostVotesOfUser);
  Add(claimed, kMostVotes / kPartOfClaims, kMostVotesOfUser / kPartOfClaims);
  ++turn_;
  if (!health_.flows.empty()) on_sample_(health_);
}

std::vector<PathSampler::Subject> PathSampler::FindSubjects(
    std::span<const FlowMeasure> flows) const {
  std::vector<Subject> subjects;
  for (const FlowMeasure& flow : flows) {
    const wire::PathSet* const set = ports_.Find(flow.sample->id);
    if (set == nullptr) continue;  // on ECMP: nobody knows its path
    const auto first = static_cast<std::ptrdiff_t>(subjects.size());
    for (const wire::FlowPath& path : set->paths) subjects.push_back({&flow, set, &path});
    const auto port_of = [](const Subject& subject) { return subject.path->source_port; };
    std::ranges::sort(subjects.begin() + first, subjects.end(), {}, port_of);
    const auto same = std::ranges::unique(subjects.begin() + first, subjects.end(), {}, port_of);
    subjects.erase(same.begin(), same.end());
  }
  return subjects;
}

PathSampler::Claims PathSampler::ClaimsOf(const Subject& subject) {
  const FlowSample& sample = *subject.flow->sample;
  Claims claims{.flow = sample.id, .port = subject.path->source_port};
  if (subject.set->paths.size() == 1) claims.retries = sample.retries;
  for (const PortProgress& progress : sample.ports) {
    if (progress.source_port != claims.port) continue;
    claims.is_seen = true;
    claims.sent_bytes += progress.sent_bytes;
    claims.is_busy |= progress.outstanding_bytes > 0;
    if (subject.set->paths.size() > 1) claims.retries += progress.retries;
  }
  return claims;
}

const PathSampler::Claims* PathSampler::FindBefore(wire::LocalFlowId flow,
                                                   std::uint16_t port) const {
  const auto found = std::lower_bound(
      before_.begin(), before_.end(), std::pair(flow, port),
      [](const Claims& a, const auto& b) { return std::pair(a.flow, a.port) < b; });
  const bool is_it = found != before_.end() && found->flow == flow && found->port == port;
  return is_it ? &*found : nullptr;
}

std::uint32_t PathSampler::PartOf(std::uint32_t total, std::size_t parts, std::size_t index) const {
  const auto count = static_cast<std::uint32_t>(parts);
  const auto place = static_cast<std::uint32_t>((index + turn_) % parts);
  return total / count + (place < total % count ? 1U : 0U);
}

void PathSampler::CountDevices(std::span<Subject> subjects) {
  if (!options_.transports.device) return;
  std::map<IpAddress, std::map<std::uint64_t, std::vector<Subject*>>> devices;
  for (Subject& subject : subjects) {
    const FlowSample& sample = *subject.flow->sample;
    if (!IsQueuePair(sample) || subject.flow->state == wire::FlowState::kIdle) continue;
    devices[sample.source][PayerOf(sample)].push_back(&subject);
  }
  std::map<IpAddress, std::uint32_t> counts;
  for (auto& [address, users] : devices) {
    const std::uint32_t count = options_.transports.device(address).out_of_sequence;
    counts[address] = count;
    const auto known = devices_.find(address);
    const std::uint32_t growth = known == devices_.end() ? 0 : GrowthOf(known->second, count);
    std::size_t user_index = 0;
    for (auto& [user, of_user] : users) {
      const std::uint32_t part = PartOf(growth, users.size(), user_index++);
      for (std::size_t i = 0; i < of_user.size(); ++i) {
        of_user[i]->of_device = PartOf(part, of_user.size(), i);
      }
    }
  }
  devices_ = std::move(counts);
}

wire::FlowHealth PathSampler::Describe(const Subject& subject, const Claims& now,
                                       const Claims* before) {
  wire::FlowHealth health{.flow = now.flow,
                          .path_id = subject.path->path_id,
                          .source_port = now.port,
                          .rtt_us = subject.flow->sample->rtt_us};
  if (const auto count = sockets_.Take(now.flow, now.port)) {
    health.retries = count->repeats;
    health.rtt_us = count->rtt_us;
    health.basis = wire::PathBasis::kKernel;
  } else if (subject.of_device > 0) {
    health.retries = subject.of_device;
    health.basis = wire::PathBasis::kDevice;
  } else if (before != nullptr) {
    health.retries = GrowthOf(before->retries, now.retries);
  }
  return health;
}

void PathSampler::Add(std::span<const Vote> votes, std::size_t most, std::size_t most_of_user) {
  std::map<std::uint64_t, std::size_t> of_user;
  std::size_t added = 0;
  for (std::size_t i = 0; i < votes.size() && added < most; ++i) {
    const Vote& vote = votes[(i + turn_ * most_of_user) % votes.size()];
    if (of_user[vote.user] >= most_of_user) continue;
    ++of_user[vote.user];
    ++added;
    health_.flows.push_back(vote.health);
  }
}

}  // namespace espalier::agent
