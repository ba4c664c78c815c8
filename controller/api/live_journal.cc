#include "controller/api/live_journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "common/files/json.h"
#include "controller/api/flow_view.h"
#include "controller/api/job_view.h"
#include "controller/api/link_view.h"
#include "controller/api/views.h"

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

LiveJournal::Look::Look(const State& state) : slots(state.flows.All()), statistics(state) {}

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
  look_.reset();
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
  look_ = std::make_unique<Look>(controller_->state());
  Continue();
}

void LiveJournal::Continue() {
  const TimePoint start = loop_.Now();
  const bool has_ended = look_->has_all;
  if (has_ended) {
    Finish();
  } else {
    look_->has_all = ScanEdges(ScanFlows(kFlowsPerSlice)) > 0;
  }
  const Duration spent = loop_.Now() - start;
  slice_seconds_.ObserveSeconds(SecondsOf(spent));
  look_->spent += spent;
  if (!has_ended) {
    timer_ = loop_.After(Duration::zero(), [this] { Continue(); });
    return;
  }
  const Duration pause = std::max(kMinInterval, look_->spent * kWorkShare);
  look_.reset();
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
  for (; most > 0 && look_->next_slot < look_->slots.size(); --most, ++look_->next_slot) {
    const FlowSlot slot = look_->slots[look_->next_slot];
    if (!state.flows.IsOpen(slot)) continue;  // closed since the scan began: EndFlow finds it
    if (slot.Index() >= flows_.size()) flows_.resize(slot.Index() + 1);
    for (; look_->next_flow < slot.Index(); ++look_->next_flow) EndFlow(look_->next_flow);
    ScanFlow(slot);
    ++look_->next_flow;
  }
  if (look_->next_slot == look_->slots.size()) {
    for (; look_->next_flow < flows_.size(); ++look_->next_flow) EndFlow(look_->next_flow);
  }
  return most;
}

std::size_t LiveJournal::ScanEdges(std::size_t most) {
  const State& state = controller_->state();
  const EdgeReservations::ByName& edges = state.edges.all();
  auto edge = edges.upper_bound(look_->last_edge);
  for (; most > 0 && edge != edges.end(); --most, ++edge) {
    EndEdgesBefore(&edge->first);
    Tell(edges_[edge->first], Show(state, edge->first, edge->second));
    look_->last_edge = edge->first;
  }
  if (most > 0) EndEdgesBefore(nullptr);
  return most;
}

void LiveJournal::ScanFlow(FlowSlot slot) {
  const State& state = controller_->state();
  const Flow& flow = state.flows.At(slot);
  FlowRecord& told = flows_[slot.Index()];
  if (!told.name.empty() && (told.agent != flow.agent || told.local != flow.local)) {
    EndFlow(slot.Index());  // the slot belonged to another flow
  }
  Tell(told, Show(state, slot));
}

void LiveJournal::Tell(FlowRecord& told, const ShownFlow& flow) {
  const State& state = controller_->state();
  look_->statistics.Count(state, flow);
  const std::uint64_t bps = CoarseRate(flow.activity.achieved_bps);
  if (IsNews(told.record, LiveFlowDigest(flow))) {
    if (told.name.empty()) told.name = state.FlowName(flow.agent, flow.local);
    told.agent = flow.agent;
    told.local = flow.local;
    told.coarse_bps = bps;
    told.record.json = LiveFlow(state, flow);
    AppendTo(look_->flows, told.record.json);
  } else if (bps != told.coarse_bps) {
    told.coarse_bps = bps;
    told.record.json = LiveFlow(state, flow);
    AppendTo(look_->rates,
             fmt::format("{{\"flow\":{},\"achieved_bps\":{}}}", Quoted(told.name), bps));
  }
}

void LiveJournal::EndFlow(std::size_t slot) {
  FlowRecord told = std::exchange(flows_[slot], {});
  if (told.name.empty()) return;
  // A flow that was closed and opened again during one scan has another slot.
  const auto now = controller_->state().flows.Find(told.agent, told.local);
  const bool has_moved =
      now && now->Index() < flows_.size() && flows_[now->Index()].name == told.name;
  if (!has_moved) AppendTo(look_->ended, Quoted(told.name));
}

// Numbers of edges are never reused.
void LiveJournal::EndEdgesBefore(const EdgeName* next) {
  auto told = edges_.upper_bound(look_->last_edge);
  while (told != edges_.end() && (next == nullptr || told->first < *next)) {
    AppendTo(look_->ended, Quoted(told->second.name));
    told = edges_.erase(told);
  }
}

void LiveJournal::ScanLinks() {
  const State& state = controller_->state();
  const LinkTraffic& traffic = look_->statistics.traffic();
  links_.resize(state.topology.links().size());
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const fabric::LinkId id(static_cast<std::int32_t>(i));
    if (!IsNews(links_[i], LinkDigest(state, id, traffic))) continue;
    io::JsonWriter json;
    WriteLink(json, state, id, traffic);
    links_[i].json = json.Text();
    AppendTo(look_->links, links_[i].json);
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
    AppendTo(look_->agents, agents_[i].json);
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
  AppendWhole(parts, "status", status_, LiveStatus(*controller_, look_->statistics, loads_));
  AppendList(parts, "ended", look_->ended);
  AppendList(parts, "flows", look_->flows);
  AppendList(parts, "rates", look_->rates);
  AppendList(parts, "links", look_->links);
  AppendList(parts, "agents", look_->agents);
  AppendWhole(parts, "jobs", jobs_, LiveJobs(state, loop_.Now(), look_->statistics));
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
