#include "controller/api/live/live_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "common/files/json_writer.h"
#include "controller/api/views/flow_view.h"
#include "controller/api/views/job_view.h"
#include "controller/api/views/link_view.h"
#include "controller/api/views/views.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr Duration kMinInterval = 200ms;
constexpr int kWorkShare = 10;  // scans take at most one part in so many of the time
constexpr std::size_t kMaxKeptBytes = 16 << 20;
constexpr std::uint64_t kMaxEvents = 200;
// The lower bound of the load takes as long as the rest of a scan, so it is updated less often.
constexpr Duration kSummaryInterval = 1s;

std::string Quoted(std::string_view text) {
  io::JsonWriter json;
  json.String(text);
  return json.Text();
}

void AppendList(std::string& out, std::string_view key, std::string_view items) {
  if (!items.empty()) out += fmt::format(",\"{}\":[{}]", key, items);
}

}  // namespace

LiveJournal::Scan::Scan(const State& state) : slots(state.flows.All()), statistics(state) {}

LiveJournal::LiveJournal(Controller& controller, Metrics& metrics, std::function<void()> on_news)
    : controller_(&controller),
      loop_(controller.loop()),
      on_news_(std::move(on_news)),
      updates_written_(metrics.MakeCounter(
          "espalier_controller_feed_updates_total",
          "Updates of the live feed that were written, each once for all clients")),
      snapshots_written_(metrics.MakeCounter("espalier_controller_feed_snapshots_total",
                                             "Snapshots of the live feed that were written")),
      slice_seconds_(
          metrics.MakeLatency("espalier_controller_feed_slice_seconds",
                              "Time that the live feed occupies the loop without a break")) {}

void LiveJournal::Follow() {
  following_ = true;
  if (controller_ != nullptr && !timer_) Begin();
}

void LiveJournal::Rest() { following_ = false; }

void LiveJournal::Close() {
  controller_ = nullptr;
  timer_.reset();
  scan_.reset();
}

LiveJournal::Piece LiveJournal::Take(std::uint64_t after) {
  if (controller_ == nullptr || !is_current_ || after == change_) return {nullptr, after};
  const std::uint64_t oldest = updates_.empty() ? change_ : updates_.front().after;
  if (after >= oldest && after > 0) {
    return {updates_[static_cast<std::size_t>(after - oldest)].text, after + 1};
  }
  if (!snapshot_.text || snapshot_.change < oldest) snapshot_ = {WriteSnapshot(), change_};
  return snapshot_;
}

void LiveJournal::Begin() {
  scan_ = std::make_unique<Scan>(controller_->state());
  Continue();
}

void LiveJournal::Continue() {
  const TimePoint start = loop_.Now();
  const bool has_ended = scan_->has_all;
  if (has_ended) {
    Finish();
  } else {
    scan_->has_all = ScanEdges(ScanFlows(kFlowsPerSlice)) > 0;
  }
  const Duration spent = loop_.Now() - start;
  slice_seconds_.ObserveSeconds(SecondsOf(spent));
  scan_->spent += spent;
  if (!has_ended) {
    timer_ = loop_.After(Duration::zero(), [this] { Continue(); });
    return;
  }
  const Duration pause = std::max(kMinInterval, scan_->spent * kWorkShare);
  scan_.reset();
  timer_ = loop_.After(pause, [this] {
    timer_.reset();
    if (following_) return Begin();
    // The next client gets a new snapshot.
    is_current_ = false;
    updates_.clear();
    kept_bytes_ = 0;
    snapshot_ = {};
  });
  on_news_();
}

bool LiveJournal::IsNews(Record& record, std::uint64_t digest) {
  digest = std::max<std::uint64_t>(digest, 1);
  return std::exchange(record.digest, digest) != digest;
}

void LiveJournal::AppendTo(std::string& list, std::string_view item) {
  if (!list.empty()) list += ',';
  list += item;
}

std::size_t LiveJournal::ScanFlows(std::size_t most) {
  const State& state = controller_->state();
  for (; most > 0 && scan_->next_slot < scan_->slots.size(); --most, ++scan_->next_slot) {
    const FlowSlot slot = scan_->slots[scan_->next_slot];
    if (!state.flows.IsOpen(slot)) continue;  // closed since the scan began: EndFlow finds it
    if (slot.Index() >= flows_.size()) flows_.resize(slot.Index() + 1);
    for (; scan_->next_flow < slot.Index(); ++scan_->next_flow) EndFlow(scan_->next_flow);
    ScanFlow(slot);
    ++scan_->next_flow;
  }
  if (scan_->next_slot == scan_->slots.size()) {
    for (; scan_->next_flow < flows_.size(); ++scan_->next_flow) EndFlow(scan_->next_flow);
  }
  return most;
}

std::size_t LiveJournal::ScanEdges(std::size_t most) {
  const State& state = controller_->state();
  const EdgeReservations::ByName& edges = state.edges.all();
  auto edge = edges.upper_bound(scan_->last_edge);
  for (; most > 0 && edge != edges.end(); --most, ++edge) {
    EndEdgesBefore(&edge->first);
    UpdateFlow(edges_[edge->first], Show(state, edge->first, edge->second));
    scan_->last_edge = edge->first;
  }
  if (most > 0) EndEdgesBefore(nullptr);
  return most;
}

void LiveJournal::ScanFlow(FlowSlot slot) {
  const State& state = controller_->state();
  const Flow& flow = state.flows.At(slot);
  FlowRecord& known = flows_[slot.Index()];
  if (!known.name.empty() && (known.agent != flow.agent || known.local != flow.local)) {
    EndFlow(slot.Index());  // the slot belonged to another flow
  }
  UpdateFlow(known, Show(state, slot));
}

void LiveJournal::UpdateFlow(FlowRecord& known, const ShownFlow& flow) {
  const State& state = controller_->state();
  scan_->statistics.Count(state, flow);
  const std::uint64_t bps = CoarseRate(flow.activity.achieved_bps);
  const Attestation::State attested = AttestationOf(*controller_, flow).state;
  if (IsNews(known.record, LiveFlowDigest(flow, attested))) {
    if (known.name.empty()) known.name = state.FlowName(flow.agent, flow.local);
    known.agent = flow.agent;
    known.local = flow.local;
    known.coarse_bps = bps;
    known.record.json = LiveFlow(state, flow, attested);
    AppendTo(scan_->flows, known.record.json);
  } else if (bps != known.coarse_bps) {
    known.coarse_bps = bps;
    known.record.json = LiveFlow(state, flow, attested);
    AppendTo(scan_->rates,
             fmt::format("{{\"flow\":{},\"achieved_bps\":{}}}", Quoted(known.name), bps));
  }
}

void LiveJournal::EndFlow(std::size_t slot) {
  FlowRecord known = std::exchange(flows_[slot], {});
  if (known.name.empty()) return;
  // A flow that was closed and opened again during one scan has another slot.
  const auto now = controller_->state().flows.Find(known.agent, known.local);
  const bool has_moved =
      now && now->Index() < flows_.size() && flows_[now->Index()].name == known.name;
  if (!has_moved) AppendTo(scan_->ended, Quoted(known.name));
}

// Numbers of edges are never reused.
void LiveJournal::EndEdgesBefore(const EdgeName* next) {
  auto known = edges_.upper_bound(scan_->last_edge);
  while (known != edges_.end() && (next == nullptr || known->first < *next)) {
    AppendTo(scan_->ended, Quoted(known->second.name));
    known = edges_.erase(known);
  }
}

void LiveJournal::ScanLinks() {
  const State& state = controller_->state();
  const LinkTraffic& traffic = scan_->statistics.traffic();
  links_.resize(state.topology.links().size());
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const fabric::LinkId id(static_cast<std::int32_t>(i));
    if (!IsNews(links_[i], LinkDigest(state, id, traffic))) continue;
    io::JsonWriter json;
    WriteLink(json, *controller_, id, traffic);
    links_[i].json = json.Text();
    AppendTo(scan_->links, links_[i].json);
  }
}

void LiveJournal::ScanAgents() {
  const State& state = controller_->state();
  agents_.resize(state.agents.size());
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    const AgentId id(static_cast<std::int32_t>(i));
    const Agent& agent = state.agents.At(id);
    std::uint64_t digest = agent.instance;
    Mix(digest, state.CountFlowsOf(id) << 1 | (agent.peer ? 1 : 0));
    Mix(digest, agent.generation);
    Mix(digest, agent.acked_generation);
    if (!IsNews(agents_[i], digest)) continue;
    agents_[i].json = LiveAgent(state, id);
    AppendTo(scan_->agents, agents_[i].json);
  }
}

void LiveJournal::AppendWhole(std::string& out, std::string_view key, Record& record,
                              std::string json) {
  if (!IsNews(record, std::hash<std::string>()(json))) return;
  record.json = std::move(json);
  out += fmt::format(",\"{}\":{}", key, record.json);
}

void LiveJournal::AppendEvents(std::string& out, std::uint64_t since, std::uint64_t last) const {
  auto events = controller_->state().history.Since(
      std::max(since, last - std::min(last, kMaxEvents)), kMaxEvents);
  std::erase_if(events, [&](const HistoryEvent& event) { return event.sequence > last; });
  if (!events.empty()) out += fmt::format(",\"events\":{}", LiveEvents(*controller_, events));
}

void LiveJournal::Finish() {
  const State& state = controller_->state();
  ScanLinks();
  ScanAgents();
  if (!is_current_ || loop_.Now() - summarized_ >= kSummaryInterval) {
    loads_ = Summarize(state);
    summarized_ = loop_.Now();
  }
  std::string parts;
  AppendWhole(parts, "status", status_, LiveStatus(*controller_, scan_->statistics, loads_));
  AppendList(parts, "ended", scan_->ended);
  AppendList(parts, "flows", scan_->flows);
  AppendList(parts, "rates", scan_->rates);
  AppendList(parts, "links", scan_->links);
  AppendList(parts, "agents", scan_->agents);
  AppendWhole(parts, "jobs", jobs_, LiveJobs(state, loop_.Now(), scan_->statistics));
  AppendEvents(parts, last_event_, state.history.last_sequence());
  last_event_ = state.history.last_sequence();
  if (!parts.empty() || change_ == 0) Keep(std::move(parts));
  is_current_ = true;
}

void LiveJournal::Keep(std::string parts) {
  ++change_;
  // No client has the state from before the first scan after Follow.
  if (!is_current_) return;
  updates_written_.Add();
  auto text = std::make_shared<const std::string>(
      fmt::format("event: update\nid: {}\ndata: {{\"change\":{}{}}}\n\n", change_, change_, parts));
  kept_bytes_ += text->size();
  updates_.push_back({change_ - 1, std::move(text)});
  while (updates_.size() > kMaxUpdates || kept_bytes_ > kMaxKeptBytes) {
    kept_bytes_ -= updates_.front().text->size();
    updates_.pop_front();
  }
}

std::shared_ptr<const std::string> LiveJournal::WriteSnapshot() const {
  snapshots_written_.Add();
  std::string flows;
  for (const FlowRecord& flow : flows_) {
    if (!flow.name.empty()) AppendTo(flows, flow.record.json);
  }
  for (const auto& [name, edge] : edges_) AppendTo(flows, edge.record.json);
  const auto join = [](std::span<const Record> records) {
    std::string all;
    for (const Record& record : records) AppendTo(all, record.json);
    return all;
  };
  std::string text = fmt::format("event: snapshot\nid: {}\ndata: {{\"change\":{},\"status\":{}",
                                 change_, change_, status_.json);
  AppendList(text, "flows", flows);
  AppendList(text, "links", join(links_));
  AppendList(text, "agents", join(agents_));
  text += fmt::format(",\"jobs\":{}", jobs_.json);
  AppendEvents(text, 0, last_event_);
  text += "}\n\n";
  return std::make_shared<const std::string>(std::move(text));
}

}  // namespace espalier::controller
