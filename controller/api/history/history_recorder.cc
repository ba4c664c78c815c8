#include "controller/api/history/history_recorder.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "controller/api/views/link_view.h"
#include "controller/placement/loads/load_summary.h"
#include "controller/state/fabric_health.h"

namespace espalier::controller {
namespace {

using fabric::DirectedLink;
using fabric::LinkId;

constexpr int kHistoryShare = 50;         // samples take at most one part in so many of the time
constexpr std::size_t kMostEvents = 256;  // that are looked at for a sample

// Events that tell of a link or node that failed, and of what operators have done.
constexpr std::string_view kFailures[] = {"link_failed", "node_failed", "link_detected_down",
                                          "link_reported_down", "link_lossy"};
constexpr std::string_view kActions[] = {
    "link_failed",   "link_restored", "link_drained",   "link_undrained", "node_failed",
    "node_restored", "node_drained",  "node_undrained", "weight_set",     "policy_set",
    "policy_reset",  "recomputed",    "rolled_back",    "job_started",    "job_stopped"};

bool IsAnyOf(std::span<const std::string_view> kinds, const HistoryEvent& event) {
  return std::ranges::find(kinds, event.kind) != kinds.end();
}

}  // namespace

HistoryRecorder::HistoryRecorder(Controller& controller, Metrics& metrics, std::size_t budget)
    : controller_(controller),
      loop_(controller.loop()),
      budget_(budget),
      history_(controller.state().topology.links().size(), budget),
      bytes_(metrics.MakeGauge("espalier_controller_history_bytes",
                               "Memory that the history of the fabric uses at present")),
      slice_seconds_(
          metrics.MakeLatency("espalier_controller_history_slice_seconds",
                              "Time that recording the history occupies the loop without a break")),
      previous_(loop_.Now()),
      last_event_(controller.state().history.last_sequence()) {
  if (history_.full_bytes() == 0) return;
  timer_ = loop_.After(kInterval, [this] { Begin(); });
}

void HistoryRecorder::Begin() {
  scan_ = std::make_unique<Scan>(controller_.state());
  Continue();
}

void HistoryRecorder::Continue() {
  const TimePoint start = loop_.Now();
  const bool has_ended = scan_->has_all;
  if (has_ended) {
    Finish();
  } else {
    ScanSlice();
  }
  const Duration spent = loop_.Now() - start;
  slice_seconds_.ObserveSeconds(SecondsOf(spent));
  scan_->spent += spent;
  if (!has_ended) {
    timer_ = loop_.After(Duration::zero(), [this] { Continue(); });
    return;
  }
  const Duration pause = std::max(kInterval, scan_->spent * kHistoryShare);
  scan_.reset();
  timer_ = loop_.After(pause, [this] { Begin(); });
}

void HistoryRecorder::ScanSlice() {
  const State& state = controller_.state();
  std::size_t most = kFlowsPerSlice;
  for (; most > 0 && scan_->next < scan_->slots.size(); --most) {
    const FlowSlot slot = scan_->slots[scan_->next++];
    if (!state.flows.IsOpen(slot)) continue;  // closed since the scan began
    Count(Show(state, slot));
    scan_->reach.Add(ReachOf(state, state.topology, state.flows.At(slot)));
  }
  auto edge = state.edges.all().upper_bound(scan_->last_edge);
  for (; most > 0 && edge != state.edges.all().end(); --most, ++edge) {
    Count(Show(state, edge->first, edge->second));
    scan_->reach.Add(ReachOf(state, state.topology, edge->second));
    scan_->last_edge = edge->first;
  }
  scan_->has_all = most > 0;
}

void HistoryRecorder::Count(const ShownFlow& flow) {
  const State& state = controller_.state();
  scan_->statistics.Count(state, flow);
  const auto bps = static_cast<float>(flow.activity.achieved_bps);
  if (!flow.activity.IsBusy() || !scan_->slowest.Takes(bps)) return;
  FlowRecord record{.job = flow.job,
                    .source = flow.key.source.value(),
                    .destination = flow.key.destination.value(),
                    .port = flow.first_port() == 0 ? flow.own_port : flow.first_port(),
                    .protocol = flow.protocol,
                    .status = static_cast<std::uint8_t>(flow.status),
                    .bps = bps,
                    .hops = 0,
                    .path = {}};
  if (!flow.subflows.empty() && flow.subflows.front().path) {
    const auto paths = state.paths.Between(flow.source_leaf, flow.destination_leaf);
    const auto& hops = paths[flow.subflows.front().path->Index()].hops;
    if (hops.size() <= FlowRecord::kMostHops) {
      for (const DirectedLink hop : hops) {
        record.path[record.hops++] = static_cast<std::int32_t>(hop.Index());
      }
    }
  }
  scan_->slowest.Offer(record);
}

void HistoryRecorder::Finish() {
  const TimePoint now = loop_.Now();
  FabricRecord fabric;
  RecordLinks(fabric);
  // No load is called avoidable by an old bound.
  if (--until_bound_ < 0 || fabric.max_load > fair_load_) {
    fair_load_ = static_cast<float>(Summarize(controller_.state()).lower_bound.Value());
    until_bound_ = kSamplesPerBound - 1;
  }
  fabric.fair_load = fair_load_;
  RecordJobs(fabric);
  RecordFlows();
  RecordHealth(fabric);
  CountHappened(fabric);
  // Records of another topology would describe other links.
  if (history_.links() != links_.size()) history_ = FabricHistory(links_.size(), budget_);
  history_.Add({now, fabric, links_, jobs_, flows_});
  previous_ = now;
  bytes_.Set(static_cast<double>(history_.used_bytes()));
}

void HistoryRecorder::RecordLinks(FabricRecord& fabric) {
  const State& state = controller_.state();
  const LinkTraffic& traffic = scan_->statistics.traffic();
  const auto capacities = state.view.capacities();
  links_.assign(state.topology.links().size(), LinkRecord{});
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    LinkRecord& record = links_[i];
    record.state = static_cast<std::uint8_t>(ShownState(state, id));
    fabric.links_off += record.state == 0 ? 0 : 1;
    const auto rate = static_cast<double>(state.topology.link(id).rate.value);
    for (const bool forward : {true, false}) {
      const DirectedLink direction{id, forward};
      const std::size_t side = forward ? 0 : 1;
      const auto background = controller_.links().background.Find(direction);
      const double use =
          std::min(1.0, (static_cast<double>(traffic.achieved_bps[direction.Index()]) +
                         static_cast<double>(background ? background->bps : 0)) /
                            rate);
      const std::int64_t capacity = capacities[direction.Index()];
      const std::int64_t on_it = state.flow_paths.assigner().LoadOf(direction.Index());
      const double load = capacity == 0 ? 0 : MakeLoad(state.view, on_it, capacity).Value();
      record.load[side] = EncodeLoad(load);
      record.use[side] = EncodeUse(use);
      if (load > fabric.max_load) {
        fabric.max_load = static_cast<float>(load);
        fabric.most_loaded = id.value();
      }
      if (use > fabric.max_use) {
        fabric.max_use = static_cast<float>(use);
        fabric.most_used = id.value();
      }
    }
  }
}

void HistoryRecorder::AddRounds(JobRecord& record, FabricRecord& fabric, std::uint32_t job) const {
  // A round has ended for certain when no flow of it has sent for kGap.
  const TimePoint from = previous_ - JobRounds::kGap;
  const TimePoint to = loop_.Now() - JobRounds::kGap;
  double seconds = 0;
  double ideal = 0;
  for (const JobRound& round : controller_.state().rounds.Finished(job, loop_.Now())) {
    if (round.ended <= from || round.ended > to) continue;
    const double took = SecondsOf(round.duration);
    const double best = SecondsOf(round.ideal);
    ++record.rounds;
    seconds += took;
    ideal += best;
    record.longest_seconds = std::max(record.longest_seconds, static_cast<float>(took));
    if (best > 0)
      fabric.round_excess = std::max(fabric.round_excess, static_cast<float>(took / best));
  }
  if (record.rounds == 0) return;
  record.round_seconds = static_cast<float>(seconds / record.rounds);
  record.ideal_seconds = static_cast<float>(ideal / record.rounds);
  fabric.rounds += record.rounds;
}

void HistoryRecorder::RecordJobs(FabricRecord& fabric) {
  const State& state = controller_.state();
  const FlowStatistics& statistics = scan_->statistics;
  std::vector<std::pair<std::int64_t, std::uint32_t>> jobs;  // (flows, job)
  for (const auto& [job, counted] : statistics.jobs()) jobs.emplace_back(counted.flows, job);
  // The last round of a job may end when its flows are closed already.
  for (const std::uint32_t job : recorded_) {
    if (!statistics.jobs().contains(job)) jobs.emplace_back(0, job);
  }
  std::ranges::stable_sort(jobs, std::greater<>(), &std::pair<std::int64_t, std::uint32_t>::first);
  jobs.resize(std::min(jobs.size(), FabricHistory::kMostJobs));
  recorded_.clear();
  jobs_.clear();
  for (const auto& [flows, job] : jobs) {
    const JobStatistics& counted = statistics.StatisticsOf(job);
    JobRecord record{};
    record.flows = static_cast<std::uint32_t>(flows);
    record.without_path = static_cast<std::uint32_t>(counted.unroutable);
    record.bps = static_cast<float>(counted.achieved_bps);
    record.slowest_bps = static_cast<float>(counted.slowest_bps.value_or(0));
    fabric.bps += record.bps;
    AddRounds(record, fabric, job);
    if (statistics.jobs().contains(job)) recorded_.insert(job);
    if (flows == 0 && record.rounds == 0 && counted.achieved_bps == 0) continue;
    record.job = history_.jobs().Intern(state.flows.JobName(job));
    jobs_.push_back(record);
  }
}

void HistoryRecorder::RecordFlows() {
  flows_.assign(scan_->slowest.flows().begin(), scan_->slowest.flows().end());
  for (FlowRecord& flow : flows_) {
    flow.job = history_.jobs().Intern(controller_.state().flows.JobName(flow.job));
  }
}

void HistoryRecorder::RecordHealth(FabricRecord& fabric) const {
  const State& state = controller_.state();
  const FabricHealth health =
      HealthOf(state, scan_->reach, controller_.links().health.awaiting_operator().size(),
               controller_.links().Doubts());
  fabric.health = static_cast<std::uint8_t>(health.word());
  fabric.flows = static_cast<std::uint32_t>(scan_->statistics.flows());
  fabric.without_path = static_cast<std::uint32_t>(scan_->reach.without_path);
  fabric.on_dead_links = static_cast<std::uint32_t>(scan_->reach.on_dead_link);
  for (std::size_t i = 0; i < state.agents.size(); ++i) {
    fabric.agents += state.agents.At(AgentId(static_cast<std::int32_t>(i))).peer ? 1 : 0;
  }
}

void HistoryRecorder::CountHappened(FabricRecord& fabric) {
  const State& state = controller_.state();
  const auto& pushes = state.push_log.entries();
  if (!pushes.empty()) {
    fabric.moves = static_cast<std::uint32_t>(pushes.back().sequence - last_push_);
    last_push_ = pushes.back().sequence;
  }
  for (const HistoryEvent& event : state.history.Since(last_event_, kMostEvents)) {
    fabric.failures += IsAnyOf(kFailures, event) ? 1 : 0;
    fabric.actions += IsAnyOf(kActions, event) ? 1 : 0;
  }
  last_event_ = state.history.last_sequence();
}

}  // namespace espalier::controller
