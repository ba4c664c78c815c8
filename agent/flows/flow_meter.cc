#include "agent/flows/flow_meter.h"

#include <algorithm>
#include <map>
#include <utility>

#include "agent/flows/elephant_shares.h"

// The meter keeps one History for each elephant and compares each sample with it.
//
// Problem: sources report totals (bytes sent, retries) at irregular times, while reports need a
// rate and path guards need to know how long a flow has stood still.
// Idea: the rate is the bytes sent in a window of at least `rate_window`, divided by its length; it
// stays the same until the next window is full. All flows have the same windows, so that the rates
// of those on one link add up to no more than it carries; a flow that comes in the middle of one
// has sent nothing before. Progress is a total that exceeds the one at the
// last progress. An idle flow counts as having made progress, so that the time without progress
// starts when it has something to send. Ports of a split flow are measured in the same way, after
// merging the subflows that share a port.
// Invariant: histories and samples both ascend by id, so one merge finds the histories of open
// flows and drops those of ended ones. Once an elephant, a flow has a history until it ends or has
// to give its place to another user's flow.
// Cost: linear in the flows, plus the square of the number of ports of each split flow.

namespace espalier::agent {
namespace {

std::uint64_t BitsPerSecondOver(std::uint64_t bytes, Duration span) {
  constexpr double kMost = 9e18;  // programs may claim absurd counts
  const double seconds = SecondsOf(span);
  return static_cast<std::uint64_t>(std::min(kMost, 8.0 * static_cast<double>(bytes) / seconds));
}

std::vector<PortProgress> MergePorts(const std::vector<PortProgress>& parts) {
  std::vector<PortProgress> merged;
  for (const PortProgress& part : parts) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const PortProgress& other) {
      return other.source_port == part.source_port;
    });
    if (same == merged.end()) {
      merged.push_back(part);
      continue;
    }
    same->outstanding_bytes += part.outstanding_bytes;
    same->sent_bytes += part.sent_bytes;
    same->retries += part.retries;
  }
  return merged;
}

bool HasBacklog(const FlowSample& sample) {
  return sample.remaining_bytes > 0 || sample.outstanding_bytes > 0;
}

}  // namespace

std::span<const FlowMeasure> FlowMeter::Measure(TimePoint now, std::span<const FlowSample> flows) {
  std::vector<History> kept;
  kept.reserve(elephants_.size());
  measures_.clear();
  if (!window_start_) window_start_ = now;
  window_ = now - *window_start_;
  if (flows.size() <= options_.max_elephants) {  // there is a place for everybody
    waiting_.clear();
    auto known = elephants_.begin();
    for (const FlowSample& sample : flows) {
      while (known != elephants_.end() && known->id < sample.id) ++known;
      const bool is_known = known != elephants_.end() && known->id == sample.id;
      if (is_known || IsElephant(sample)) Keep(now, sample, is_known ? &*known : nullptr, kept);
    }
  } else {
    std::vector<Candidate> candidates = FindCandidates(now, flows);
    if (candidates.size() > options_.max_elephants) ShareOut(candidates);
    waiting_.clear();
    for (const Candidate& candidate : candidates) {
      if (candidate.has_place) {
        Keep(now, *candidate.sample, candidate.history, kept);
      } else {
        waiting_.push_back(candidate.waiting);
      }
    }
  }
  elephants_ = std::move(kept);
  wanted_.clear();
  if (window_ >= options_.rate_window) window_start_ = now;
  return measures_;
}

bool FlowMeter::IsElephant(const FlowSample& sample) const {
  return sample.remaining_bytes + sample.outstanding_bytes >= options_.elephant_bytes ||
         sample.sent_bytes >= options_.elephant_bytes || IsWanted(sample);
}

void FlowMeter::Keep(TimePoint now, const FlowSample& sample, History* known,
                     std::vector<History>& kept) {
  if (known != nullptr) {
    kept.push_back(std::move(*known));
  } else {
    kept.push_back({.id = sample.id,
                    .since = now,
                    .window_sent = sample.sent_bytes,
                    .window_busy = window_ == Duration::zero(),
                    .pause = {now, sample.sent_bytes, sample.retries, sample.retries, now},
                    .ports = {},
                    .edges_sent = sample.sent_bytes,
                    .filter = {}});
  }
  measures_.push_back(MeasureOne(now, sample, kept.back()));
}

std::vector<FlowMeter::Candidate> FlowMeter::FindCandidates(TimePoint now,
                                                            std::span<const FlowSample> flows) {
  std::vector<Candidate> candidates;
  candidates.reserve(elephants_.size() + waiting_.size());
  auto known = elephants_.begin();
  auto waiting = waiting_.begin();
  for (const FlowSample& sample : flows) {
    while (known != elephants_.end() && known->id < sample.id) ++known;
    while (waiting != waiting_.end() && waiting->id < sample.id) ++waiting;
    Candidate candidate{.sample = &sample, .waiting = {sample.id, sample.sent_bytes, now}};
    if (known != elephants_.end() && known->id == sample.id) {
      candidate.history = &*known;
      const bool sends = sample.sent_bytes > known->pause.sent;
      if (!sends) candidate.waiting.sent = std::max(known->since, known->pause.progressed);
    } else if (waiting != waiting_.end() && waiting->id == sample.id) {
      if (sample.sent_bytes <= waiting->sent_bytes) candidate.waiting = *waiting;
    } else if (!IsElephant(sample)) {
      continue;
    }
    candidate.is_quiet = now - candidate.waiting.sent >= options_.quiet_after;
    candidates.push_back(candidate);
  }
  return candidates;
}

// Decides who has a place if there are too few. Of each user's elephants that are active, and of
// those that are quiet, the ones that have a place keep it.
void FlowMeter::ShareOut(std::vector<Candidate>& candidates) const {
  const auto count_of = [](const Candidate& candidate) {
    return candidate.is_quiet ? &ElephantCounts::quiet : &ElephantCounts::active;
  };
  std::map<BudgetOwner, ElephantCounts> wanted;
  for (const Candidate& candidate : candidates) {
    ++(wanted[candidate.sample->user].*count_of(candidate));
  }
  std::map<BudgetOwner, ElephantCounts> shares = DivideElephants(wanted, options_.max_elephants);
  for (const bool has_place : {true, false}) {
    for (Candidate& candidate : candidates) {
      if ((candidate.history != nullptr) != has_place) continue;
      std::size_t& left = shares[candidate.sample->user].*count_of(candidate);
      candidate.has_place = left > 0;
      if (left > 0) --left;
    }
  }
}

std::vector<wire::LocalFlowId> FlowMeter::WithoutPlace() const {
  std::vector<wire::LocalFlowId> flows;
  for (const Waiting& waiting : waiting_) flows.push_back(waiting.id);
  return flows;
}

Duration LongestPause(const FlowMeasure& flow) {
  Duration longest = flow.without_progress;
  for (const PortMeasure& port : flow.ports) longest = std::max(longest, port.without_progress);
  return longest;
}

void FlowMeter::Want(std::span<const wire::QueuePair> pairs) {
  const std::size_t room =
      options_.max_elephants - std::min(options_.max_elephants, wanted_.size());
  const auto taken = pairs.first(std::min(pairs.size(), room));
  wanted_.insert(wanted_.end(), taken.begin(), taken.end());
}

bool FlowMeter::IsWanted(const FlowSample& sample) const {
  return std::ranges::any_of(wanted_, [&](const wire::QueuePair& pair) {
    return pair.number == sample.local_qpn && pair.address == sample.source;
  });
}

std::vector<PortMeasure> FlowMeter::MeasurePorts(TimePoint now, const FlowSample& sample, bool idle,
                                                 History& history) {
  std::vector<PortMeasure> measures;
  std::vector<History::Port> ports;
  for (const PortProgress& progress : MergePorts(sample.ports)) {
    const auto before = std::find_if(
        history.ports.begin(), history.ports.end(),
        [&](const History::Port& port) { return port.source_port == progress.source_port; });
    History::Port port = before != history.ports.end() ? *before : History::Port{};
    // A subflow of an idle flow waits for nothing, whatever its source told of it last.
    const bool moves = before == history.ports.end() || progress.outstanding_bytes == 0 || idle ||
                       progress.sent_bytes > port.pause.sent;
    port.source_port = progress.source_port;
    if (before == history.ports.end()) port.pause.sent = progress.sent_bytes;
    if (moves) port.pause.Begin(now, progress.sent_bytes, progress.retries);
    port.pause.SeeRetries(now, progress.retries);
    measures.push_back({.source_port = port.source_port,
                        .without_progress = now - port.pause.since,
                        .retries_grew = progress.retries > port.pause.retries,
                        .since_retry = port.pause.SinceRetry(now),
                        .progressed = port.pause.progressed});
    ports.push_back(port);
  }
  history.ports = std::move(ports);
  return measures;
}

const Activity& FlowMeter::MeasureActivity(TimePoint now, const FlowSample& sample,
                                           History& history) const {
  SourceEdges& edges = history.edges;
  if (sample.edges.count != 0) {
    edges = sample.edges;
  } else {
    const bool busy = HasBacklog(sample) || sample.sent_bytes > history.edges_sent;
    if (edges.count == 0) {
      edges = {.count = busy ? 1U : 2U, .last = now};
    } else if (busy != (edges.count % 2 == 1)) {
      edges = {.count = busy ? 3U : 4U, .last = now, .between = now - edges.last};
    }
  }
  history.edges_sent = sample.sent_bytes;
  if (history.filter) {
    history.filter->Update(options_.edges, now, edges);
  } else {
    history.filter.emplace(options_.edges, now, edges);
  }
  return history.filter->activity();
}

FlowMeasure FlowMeter::MeasureOne(TimePoint now, const FlowSample& sample, History& history) const {
  const Activity& activity = MeasureActivity(now, sample, history);
  const bool idle = activity.edges % 2 == 0;
  // A queue whose last requests have no completions of their own keeps outstanding bytes.
  const bool backlog = HasBacklog(sample) && !idle;
  history.window_busy = history.window_busy && backlog;
  if (window_ >= options_.rate_window) {
    const std::uint64_t sent =
        sample.sent_bytes > history.window_sent ? sample.sent_bytes - history.window_sent : 0;
    history.achieved_bps = BitsPerSecondOver(sent, window_);
    history.busy = history.window_busy;
    history.window_sent = sample.sent_bytes;
    history.window_busy = backlog;
  }
  if (!backlog || sample.sent_bytes > history.pause.sent) {
    history.pause.Begin(now, sample.sent_bytes, sample.retries);
  }
  history.pause.SeeRetries(now, sample.retries);
  FlowMeasure measure{.sample = &sample,
                      .achieved_bps = history.achieved_bps,
                      .busy = history.busy,
                      .without_progress = now - history.pause.since,
                      .retries_grew = sample.retries > history.pause.retries,
                      .since_retry = history.pause.SinceRetry(now),
                      .progressed = history.pause.progressed,
                      .activity = activity,
                      .ports = MeasurePorts(now, sample, idle, history)};
  if (idle) {
    measure.state = wire::FlowState::kIdle;
  } else if (measure.without_progress >= options_.stalled_after) {
    measure.state = wire::FlowState::kStalled;
  }
  return measure;
}

}  // namespace espalier::agent
