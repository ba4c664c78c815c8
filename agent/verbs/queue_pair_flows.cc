#include "agent/verbs/queue_pair_flows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace espalier::agent {
namespace {

// Between two looks at a change that goes on.
constexpr Duration kStep = std::chrono::milliseconds(1);

bool CanChange(const QueuePairFlow::Member& member) { return member.path != nullptr; }

}  // namespace

QueuePairFlows::QueuePairFlows(EventLoop& loop, Metrics& metrics)
    : loop_(loop),
      ports_changed_(metrics.MakeCounter("espalier_agent_queue_pair_ports_changed_total",
                                         "Source ports of queue pairs that were changed")),
      changes_failed_(metrics.MakeCounter("espalier_agent_queue_pair_changes_failed_total",
                                          "Changes of a queue pair's source port that failed")) {}

QueuePairFlows::Handle QueuePairFlows::Add(QueuePairFlow flow) {
  ESPALIER_CHECK(!flow.members.empty() && flow.members.size() <= UINT8_MAX);
  const wire::LocalFlowId id{++last_id_};
  Entry entry = {.first_seen = loop_.Now(),
                 .traffic = std::make_unique<QueuePairTraffic[]>(flow.members.size())};
  for (QueuePairFlow::Member& member : flow.members) {
    if (member.port == 0 && CanChange(member)) member.port = member.path->OwnPort();
    const std::uint16_t port = member.port;
    entry.members.push_back({std::move(member), port});
  }
  flow.members.clear();
  entry.flow = std::move(flow);
  const Handle handle = {.id = id, .traffic = {entry.traffic.get(), entry.members.size()}};
  entries_.emplace(id, std::move(entry));
  TellChange();
  return handle;
}

void QueuePairFlows::Remove(wire::LocalFlowId id) {
  if (entries_.erase(id) != 0) TellChange();
}

void QueuePairFlows::TellChange() {
  if (on_change_) loop_.Post(on_change_);
}

FlowSample QueuePairFlows::Describe(wire::LocalFlowId id, const Entry& entry) {
  const Member& first = entry.members.front();
  FlowSample sample{.id = id,
                    .job = entry.flow.job,
                    .source = entry.flow.source,
                    .destination = entry.flow.destination,
                    .source_port = first.port,
                    .local_qpn = first.local_number,
                    .remote_qpn = first.remote_number,
                    .max_paths = static_cast<std::uint8_t>(entry.members.size()),
                    .movable = std::any_of(entry.members.begin(), entry.members.end(), CanChange),
                    .first_seen = entry.first_seen,
                    .ports = {}};
  std::uint64_t announced = 0;
  std::uint64_t all_posted = 0;
  for (std::size_t i = 0; i < entry.members.size(); ++i) {
    const QueuePairTraffic& traffic = entry.traffic[i];
    // Completions first: what they are of has been posted before.
    const std::uint64_t completed = traffic.completed();
    const std::uint64_t posted = std::max(traffic.posted(), completed);
    announced += traffic.announced();
    all_posted += posted;
    const std::uint32_t retries = traffic.retries();
    sample.outstanding_bytes += posted - completed;
    sample.sent_bytes += completed;
    sample.retries += retries;
    if (entry.members.size() < 2) continue;
    sample.ports.push_back({.source_port = entry.members[i].port,
                            .outstanding_bytes = posted - completed,
                            .sent_bytes = completed,
                            .retries = retries});
  }
  sample.remaining_bytes = std::max(announced, all_posted) - all_posted;
  return sample;
}

std::span<const FlowSample> QueuePairFlows::Flows() {
  samples_.clear();
  for (const auto& [id, entry] : entries_) samples_.push_back(Describe(id, entry));
  return samples_;
}

Result<void> QueuePairFlows::Apply(const wire::PathSet& paths) {
  const auto found = entries_.find(paths.flow);
  if (found == entries_.end()) return Fail(ErrorCode::kNotFound, "the flow has ended");
  Entry& entry = found->second;
  if (std::none_of(entry.members.begin(), entry.members.end(), CanChange)) {
    return Fail(ErrorCode::kUnsupported, "path control unsupported");
  }
  if (paths.paths.empty()) return Clear(paths.flow);
  for (std::size_t i = 0; i < entry.members.size(); ++i) {
    Want(entry.members[i], paths.paths[i % paths.paths.size()].source_port);
  }
  LimitRates(entry, paths.max_rate_bps);
  StepAll();
  return {};
}

Result<void> QueuePairFlows::Clear(wire::LocalFlowId flow) {
  const auto found = entries_.find(flow);
  if (found == entries_.end()) return Fail(ErrorCode::kNotFound, "the flow has ended");
  for (Member& member : found->second.members) {
    if (CanChange(member)) Want(member, member.path->OwnPort());
  }
  LimitRates(found->second, 0);
  StepAll();
  return {};
}

void QueuePairFlows::LimitRates(Entry& entry, std::uint64_t max_rate_bps) {
  const std::uint64_t share = max_rate_bps / entry.members.size();
  for (Member& member : entry.members) {
    if (!CanChange(member) || member.rate_limit == share) continue;
    // Advice where the device has no such limit.
    if (member.path->LimitRate(share)) member.rate_limit = share;
  }
}

void QueuePairFlows::Want(Member& member, std::uint16_t port) {
  if (CanChange(member)) member.wanted = port;
}

// As far as it goes without waiting.
void QueuePairFlows::Step(Member& member) {
  while (member.changing_to != 0 || member.wanted != member.port) {
    Result<bool> done = false;
    if (member.changing_to == 0) {
      member.changing_to = member.wanted;
      if (auto started = member.path->Start(member.changing_to); !started) {
        done = Propagate(started);
      }
    }
    if (done) done = member.path->Continue();
    if (done && !*done) return;
    const std::uint16_t port = std::exchange(member.changing_to, std::uint16_t{0});
    if (done) {
      member.port = port;
      ports_changed_.Add();
    } else {
      changes_failed_.Add();
      // Not again, unless something else is wanted by now.
      if (member.wanted == port) member.wanted = member.port;
    }
  }
}

void QueuePairFlows::StepAll() {
  bool goes_on = false;
  for (auto& [id, entry] : entries_) {
    for (Member& member : entry.members) {
      if (!CanChange(member)) continue;
      Step(member);
      if (member.changing_to != 0) goes_on = true;
    }
  }
  step_timer_ = goes_on ? loop_.After(kStep, [this] { StepAll(); }) : nullptr;
}

}  // namespace espalier::agent
