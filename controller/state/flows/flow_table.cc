#include "controller/state/flows/flow_table.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/enum_names.h"

namespace espalier::controller {
namespace {

// All bytes from the flow's opening to the end of what it announces. Each part is below 2^63.
std::uint64_t TotalBytes(const wire::FlowProgress& flow) {
  const std::uint64_t to_send = flow.remaining_bytes + flow.outstanding_bytes;
  return flow.sent_bytes + std::min(to_send, ~flow.sent_bytes);
}

// Bytes that this report announces for the first time. A flow that waits in mid-message (the edge
// of a ring, for its turn) may report that nothing remains and later report the same remainder
// again. The total including sent bytes shows that this is not new.
std::uint64_t NewBytes(const FlowActivity& before, const wire::FlowProgress& now) {
  const bool is_sum_known = now.sent_bytes > 0 && before.announced_bytes > 0;
  const std::uint64_t had = is_sum_known ? before.announced_bytes : before.remaining_bytes;
  const std::uint64_t has = is_sum_known ? TotalBytes(now) : now.remaining_bytes;
  return has - std::min(had, has);
}

// The changes between busy and idle that a report claims, of a flow that was reported before. A
// duty cycle that begins or ends is one, and during it there are none.
std::uint32_t ClaimedEdges(const FlowActivity& before, const wire::FlowProgress& now) {
  const bool had_duty = before.duty_permille > 0;
  const bool has_duty = now.duty_permille > 0;
  if (!before.ReportsEdges() || (had_duty && has_duty)) return 0;
  const std::uint32_t edges = now.edges > before.edges ? now.edges - before.edges : 0;
  return std::max<std::uint32_t>(edges, had_duty != has_duty ? 1 : 0);
}

}  // namespace

std::string_view FlowStatusName(FlowStatus status) {
  static constexpr EnumNames<FlowStatus> kFlowStatusNames({
      {FlowStatus::kNew, "NEW"},
      {FlowStatus::kAdopting, "ADOPTING"},
      {FlowStatus::kLearning, "LEARNING"},
      {FlowStatus::kRouted, "ROUTED"},
      {FlowStatus::kLocal, "LOCAL"},
      {FlowStatus::kFixed, "FIXED"},
      {FlowStatus::kUnsteered, "UNSTEERED"},
      {FlowStatus::kUnroutable, "UNROUTABLE"},
  });
  return kFlowStatusNames.NameOf(status);
}

std::string_view OtherEndName(OtherEnd end) {
  static constexpr EnumNames<OtherEnd> kOtherEndNames({
      {OtherEnd::kUnknown, "UNKNOWN"},
      {OtherEnd::kQuiet, "QUIET"},
      {OtherEnd::kAnswers, "ANSWERS"},
      {OtherEnd::kSends, "SENDS"},
  });
  return kOtherEndNames.NameOf(end);
}

std::string_view DecisionOriginName(DecisionOrigin origin) {
  static constexpr EnumNames<DecisionOrigin> kDecisionOriginNames({
      {DecisionOrigin::kReactive, "REACTIVE"},
      {DecisionOrigin::kPredicted, "PREDICTED"},
      {DecisionOrigin::kFailure, "FAILURE"},
      {DecisionOrigin::kManual, "MANUAL"},
  });
  return kDecisionOriginNames.NameOf(origin);
}

FlowTable::AgentFlows::const_iterator FlowTable::LowerBound(const AgentFlows& flows,
                                                            wire::LocalFlowId local) {
  // New flows mostly have the highest id.
  if (flows.empty() || flows.back().local < local) return flows.end();
  return std::lower_bound(
      flows.begin(), flows.end(), local,
      [](const Entry& entry, wire::LocalFlowId wanted) { return entry.local < wanted; });
}

FlowSlot FlowTable::Open(Flow flow) {
  if (by_agent_.size() <= flow.agent.Index()) {
    by_agent_.resize(flow.agent.Index() + 1);
    budgets_.resize(flow.agent.Index() + 1, EdgeBudget(EdgeBudget::kOfAgent));
  }
  AgentFlows& own = by_agent_[flow.agent.Index()];
  const auto place = LowerBound(own, flow.local);
  ESPALIER_CHECK(place == own.end() || place->local != flow.local, "agent={} flow={} opened twice",
                 flow.agent.value(), flow.local.value());
  FlowSlot slot(static_cast<std::uint32_t>(slots_.size()));
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else {
    slots_.emplace_back();
    activity_.emplace_back();
    pushes_.emplace_back();
  }
  own.insert(place, {flow.local, slot});
  jobs_.Begin(flow.job);
  if (flow.keeps_rate) ++rate_keepers_;
  slots_[slot.Index()] = std::move(flow);
  activity_[slot.Index()] = {};
  pushes_[slot.Index()] = {};
  ++size_;
  return slot;
}

void FlowTable::SetStatus(FlowSlot slot, FlowStatus status) {
  Flow& flow = Mutable(slot);
  if (flow.status == status && status != FlowStatus::kNew) return;
  if (status == FlowStatus::kNew) new_.push_back(slot);
  flow.status = status;
}

void FlowTable::SetJob(FlowSlot slot, std::uint32_t job) {
  Flow& flow = Mutable(slot);
  jobs_.Begin(job);
  jobs_.End(flow.job);
  flow.job = job;
}

void FlowTable::Close(FlowSlot slot) {
  const Flow& flow = At(slot);
  AgentFlows& own = by_agent_[flow.agent.Index()];
  own.erase(LowerBound(own, flow.local));
  jobs_.End(flow.job);
  if (flow.keeps_rate) --rate_keepers_;
  slots_[slot.Index()].reset();
  free_.push_back(slot);
  --size_;
}

std::optional<FlowSlot> FlowTable::Find(AgentId agent, wire::LocalFlowId local) const {
  if (agent.Index() >= by_agent_.size()) return std::nullopt;
  const AgentFlows& own = by_agent_[agent.Index()];
  const auto found = LowerBound(own, local);
  if (found == own.end() || found->local != local) return std::nullopt;
  return found->slot;
}

FlowTable::Taken FlowTable::TakeProgress(AgentId agent,
                                         std::span<const wire::FlowProgress> progress,
                                         TimePoint now, Duration late) {
  changes_.clear();
  due_.clear();
  if (agent.Index() >= by_agent_.size()) return {};
  const AgentFlows& own = by_agent_[agent.Index()];
  std::size_t implausible = 0;
  auto next = own.begin();
  for (const wire::FlowProgress& flow : progress.first(std::min(progress.size(), own.size()))) {
    if (next == own.end() || next->local != flow.id) next = LowerBound(own, flow.id);
    if (next == own.end()) break;
    __builtin_prefetch(&activity_[next->slot.Index()], 1);
    __builtin_prefetch(&activity_[next->slot.Index()].budget, 1);
    __builtin_prefetch(&At(next->slot).started);
    ++next;
  }
  next = own.begin();
  for (const wire::FlowProgress& flow : progress) {
    if (next == own.end() || next->local != flow.id) next = LowerBound(own, flow.id);
    if (next == own.end() || next->local != flow.id) continue;
    FlowActivity& activity = activity_[next->slot.Index()];
    const FlowActivity before = activity;
    activity = {
        .remaining_bytes = flow.remaining_bytes,
        .outstanding_bytes = flow.outstanding_bytes,
        .achieved_bps = flow.achieved_bps,
        .announced_bytes = std::max(activity.announced_bytes, TotalBytes(flow)),
        .posted_bytes = std::max(activity.posted_bytes, flow.sent_bytes + flow.outstanding_bytes),
        .next_review = activity.next_review,
        .edges = std::max(activity.edges, flow.edges),
        .duty_permille = flow.duty_permille,
        .state = flow.state,
        .budget = activity.budget,
        .last_edge = activity.last_edge};
    const bool is_too_often = ExceedsBudget(agent, activity, ClaimedEdges(before, flow), now);
    if (now >= activity.next_review) due_.push_back(next->slot);
    const bool is_in_order = NoteChanges(next->slot, before, flow, now - late);
    implausible += is_too_often || !is_in_order ? 1 : 0;
    ++next;
  }
  for (const MessageChange& change : changes_) Prefetch(At(change.slot));
  return {changes_, due_, implausible};
}

void FlowTable::Prefetch(const Flow& flow) {
  __builtin_prefetch(&flow.job);
  __builtin_prefetch(&flow.status);
  __builtin_prefetch(&flow.subflows);
  __builtin_prefetch(&flow.is_parked);
}

bool FlowTable::ExceedsBudget(AgentId agent, FlowActivity& activity, std::uint32_t edges,
                              TimePoint now) {
  constexpr std::uint32_t kMostChanges = 2;  // that a report of any number of edges leads to
  const bool was_over = activity.budget.is_over();
  if (edges == 0 && !was_over) return false;
  const bool flow_has_room = activity.budget.Take(edges, now);
  if (edges > 0 && flow_has_room &&
      !budgets_[agent.Index()].Take(std::min(edges, kMostChanges), now)) {
    activity.budget.Exceed();
  }
  return activity.budget.is_over() && !was_over;
}

bool FlowTable::NoteChanges(FlowSlot slot, const FlowActivity& before,
                            const wire::FlowProgress& report, TimePoint sent) {
  constexpr std::uint64_t kToleranceUs = 1'000'000;  // reports do not all take as long
  FlowActivity& activity = activity_[slot.Index()];
  const std::uint64_t new_bytes = NewBytes(before, report);
  const bool was_busy = before.IsBusy();
  const bool is_busy = activity.IsBusy();
  const bool missed_two = was_busy == is_busy && before.ReportsEdges() &&
                          activity.duty_permille == 0 && !activity.budget.is_over() &&
                          activity.edges > before.edges;
  if (was_busy == is_busy && !missed_two && new_bytes == 0) return true;
  if (was_busy != is_busy || missed_two) ++busy_changes_;
  // An age, as clocks of hosts differ. It cannot reach back before the flow's last edge.
  const TimePoint earliest = std::max(At(slot).started, activity.last_edge);
  const auto most = static_cast<std::uint64_t>(std::max(Duration{}, sent - earliest) /
                                               std::chrono::microseconds(1));
  const TimePoint at =
      report.edge_age_us < most ? sent - std::chrono::microseconds(report.edge_age_us) : earliest;
  const bool is_in_order = !before.ReportsEdges() || activity.edges == before.edges ||
                           report.edge_age_us < most + kToleranceUs;
  activity.last_edge = at;
  if (missed_two) changes_.push_back({slot, was_busy, !is_busy, 0, at});
  changes_.push_back({slot, missed_two ? !was_busy : was_busy, is_busy, new_bytes, at});
  return is_in_order;
}

std::vector<FlowSlot> FlowTable::OfAgent(AgentId agent) const {
  std::vector<FlowSlot> slots;
  if (agent.Index() >= by_agent_.size()) return slots;
  slots.reserve(by_agent_[agent.Index()].size());
  for (const Entry& entry : by_agent_[agent.Index()]) slots.push_back(entry.slot);
  return slots;
}

std::optional<FlowSlot> FlowTable::FindAfter(AgentId agent,
                                             std::optional<wire::LocalFlowId> local) const {
  if (agent.Index() >= by_agent_.size()) return std::nullopt;
  const AgentFlows& flows = by_agent_[agent.Index()];
  auto next = local ? LowerBound(flows, *local) : flows.begin();
  if (local && next != flows.end() && next->local == *local) ++next;
  if (next == flows.end()) return std::nullopt;
  return next->slot;
}

std::vector<FlowSlot> FlowTable::All() const {
  std::vector<FlowSlot> slots;
  slots.reserve(size_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i]) slots.emplace_back(static_cast<std::uint32_t>(i));
  }
  return slots;
}

std::size_t FlowTable::CountOfAgent(AgentId agent) const {
  return agent.Index() < by_agent_.size() ? by_agent_[agent.Index()].size() : 0;
}

}  // namespace espalier::controller
