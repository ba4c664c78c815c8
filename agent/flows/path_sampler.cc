#include "agent/flows/path_sampler.h"

#include <algorithm>
#include <utility>

namespace espalier::agent {

PathSampler::PathSampler(PathSamplerOptions options, const PortTable& ports, OnSample on_sample)
    : options_(std::move(options)), ports_(ports), on_sample_(std::move(on_sample)) {}

void PathSampler::HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows) {
  if (!last_) last_ = now;  // nothing is measured yet
  const Duration span = now - *last_;
  if (span < options_.interval) return;
  last_ = now;
  health_.flows.clear();
  present_.clear();
  for (const FlowMeasure& flow : flows) {
    const FlowSample& sample = *flow.sample;
    const wire::PathSet* const set = ports_.Find(sample.id);
    if (set == nullptr) continue;  // on ECMP: nobody knows its path
    if (set->paths.size() > 1) {
      SampleSplit(flow, *set, SecondsOf(span));
      continue;
    }
    if (!flow.busy || flow.state != wire::FlowState::kActive) continue;
    health_.flows.push_back({.flow = sample.id,
                             .path_id = set->paths.front().path_id,
                             .source_port = set->paths.front().source_port,
                             .achieved_bps = flow.achieved_bps,
                             .planned_bps = set->max_rate_bps,
                             .retries = sample.retries,
                             .rtt_us = sample.rtt_us});
  }
  std::swap(before_, present_);
  if (health_.flows.empty()) return;
  if (options_.read_device) {
    // Samples are in the order of flows, and few devices alternate.
    std::vector<std::pair<IpAddress, DeviceCounters>> devices;
    auto flow = flows.begin();
    for (wire::FlowHealth& health : health_.flows) {
      while (flow->sample->id != health.flow) ++flow;
      const IpAddress& source = flow->sample->source;
      auto known = std::ranges::find(devices, source, &std::pair<IpAddress, DeviceCounters>::first);
      if (known == devices.end()) {
        known = devices.emplace(known, source, options_.read_device(source));
      }
      health.out_of_sequence = known->second.out_of_sequence;
      health.cnp = known->second.congestion;
    }
  }
  on_sample_(health_);
}

const PathSampler::Before* PathSampler::FindBefore(wire::LocalFlowId flow,
                                                   std::uint16_t port) const {
  const auto found = std::lower_bound(
      before_.begin(), before_.end(), std::pair(flow, port),
      [](const Before& a, const auto& b) { return std::pair(a.flow, a.port) < b; });
  const bool is_it = found != before_.end() && found->flow == flow && found->port == port;
  return is_it ? &*found : nullptr;
}

void PathSampler::SampleSplit(const FlowMeasure& flow, const wire::PathSet& set, double seconds) {
  const FlowSample& sample = *flow.sample;
  const std::size_t first = present_.size();
  for (const wire::FlowPath& path : set.paths) {
    Before now{.flow = sample.id, .port = path.source_port};
    wire::FlowHealth health{.flow = sample.id,
                            .path_id = path.path_id,
                            .source_port = path.source_port,
                            .rtt_us = sample.rtt_us};
    bool is_seen = false;
    for (const PortProgress& progress : sample.ports) {
      if (progress.source_port != path.source_port) continue;
      is_seen = true;
      now.sent_bytes += progress.sent_bytes;
      now.was_busy |= progress.outstanding_bytes > 0;
      health.retries += progress.retries;
    }
    if (!is_seen) continue;
    present_.push_back(now);
    const Before* const before = FindBefore(sample.id, path.source_port);
    const bool is_busy = flow.busy && flow.state == wire::FlowState::kActive && now.was_busy;
    if (before == nullptr || !before->was_busy || !is_busy) continue;
    const std::uint64_t sent =
        now.sent_bytes > before->sent_bytes ? now.sent_bytes - before->sent_bytes : 0;
    health.achieved_bps = static_cast<std::uint64_t>(
        std::min(9e18, 8.0 * static_cast<double>(sent) / std::max(seconds, 1e-6)));
    health_.flows.push_back(health);
  }
  std::sort(present_.begin() + static_cast<std::ptrdiff_t>(first), present_.end(),
            [](const Before& a, const Before& b) { return a.port < b.port; });
}

}  // namespace espalier::agent
