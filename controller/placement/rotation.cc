#include "controller/placement/rotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "controller/placement/reachable_paths.h"

namespace espalier::controller {
namespace {

constexpr double kForgotten = 1e-3;  // a debt in seconds that counts as none

// Lets flows with planned paths be moved, and count as load though they are parked, while it
// exists. Afterwards they are pinned again if they are on their planned paths.
class PlannedFlows {
 public:
  PlannedFlows(State& state, const PhasePlan& plan) : state_(state), plan_(plan) {
    for (const FlowSlot slot : plan.flows()) {
      Flow& flow = state.flows.At(slot);
      if (flow.is_answering) continue;
      if (std::exchange(flow.is_parked, false)) {
        state.flow_paths.Wake(flow);
        parked_.push_back(slot);
      }
      if (std::exchange(flow.is_on_plan, false)) {
        state.flow_paths.Hold(flow, false);
        pinned_.push_back(slot);
      }
    }
  }
  PlannedFlows(const PlannedFlows&) = delete;
  PlannedFlows& operator=(const PlannedFlows&) = delete;
  ~PlannedFlows() {
    for (const FlowSlot slot : parked_) state_.flows.At(slot).is_parked = true;
    for (const FlowSlot slot : parked_) state_.flow_paths.Park(state_.flows.At(slot));
    for (const FlowSlot slot : pinned_) {
      Flow& flow = state_.flows.At(slot);
      flow.is_on_plan = plan_.IsOnPlan(slot);
      state_.flow_paths.Hold(flow, false);
    }
  }

 private:
  State& state_;
  const PhasePlan& plan_;
  std::vector<FlowSlot> parked_;
  std::vector<FlowSlot> pinned_;
};

std::vector<OnlineAssigner::Move> Reversed(std::vector<OnlineAssigner::Move> moves) {
  std::ranges::reverse(moves);
  for (OnlineAssigner::Move& move : moves) std::swap(move.from, move.to);
  return moves;
}

// Whether links have a higher maximum load, or are loaded less evenly.
bool IsWorse(const FabricView& view, std::span<const std::int64_t> loads,
             std::span<const std::int64_t> than) {
  constexpr double kRounding = 1e-9;
  double most[2] = {};
  double squares[2] = {};
  for (std::uint32_t link = 0; link < loads.size(); ++link) {
    const double capacity = view.capacities_bps()[link];
    if (capacity == 0 || !view.IsSwitchLink(link)) continue;
    for (const std::size_t which : {0, 1}) {
      const auto load = static_cast<double>(which == 0 ? loads[link] : than[link]);
      most[which] = std::max(most[which], load / capacity);
      squares[which] += load / capacity * load;
    }
  }
  return most[0] > most[1] * (1 + kRounding) || squares[0] > squares[1] * (1 + kRounding);
}

double SecondsIn(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

// Problem: with fractional loads somebody is slow, and without moves always the same jobs are.
// Idea: a look once a period finds the flows that send and the jobs that are slowed, and counts
// their debts. JobExchanges then says which flows should change places. If these are busy, the
// exchange waits a little and is chosen again when they are idle, as paths may have changed since.
// Invariant: debts_ has an entry for each job that was slowed lately, and no other class writes it.

Rotation::Rotation(State& state, PortBinder& ports, const ControllerOptions& options,
                   Metrics& metrics)
    : state_(state),
      ports_(ports),
      options_(options),
      exchanges_(metrics.MakeCounter(
          "espalier_controller_path_exchanges_total",
          "Times that flows of two jobs exchanged their paths, so that no job is always slow")),
      moved_(metrics.MakeCounter(
          "espalier_controller_flows_rotated_total",
          "Flows that changed their path in such exchanges, or made room for them")),
      refused_(metrics.MakeCounter(
          "espalier_controller_path_exchanges_refused_total",
          "Times that no such exchange was made, as it would have harmed other flows or moved too "
          "many")) {}

bool Rotation::IsEnabled() const {
  return options_.rotate_paths_every.count() > 0 && options_.moves_per_start > 0 &&
         options_.algorithm != Algorithm::kGreedy && state_.view.clos().has_value();
}

bool Rotation::IsUneven() {
  const std::uint64_t changes = state_.flow_paths.changes();
  if (was_even_ && changes == seen_changes_) return false;
  seen_changes_ = changes;
  std::vector<std::int64_t> loads(state_.view.capacities().size());
  for (std::size_t link = 0; link < loads.size(); ++link) {
    loads[link] = state_.flow_paths.LoadIfAllAreBusy(link);
  }
  was_even_ = !JobExchanges::MayBeUneven(state_.view, loads);
  return !was_even_;
}

std::size_t Rotation::Tick(TimePoint now, PhasePlan& plan) {
  if (plan.IsBeingMade()) return 0;
  if (due_) {
    const bool is_idle = std::ranges::none_of(waiting_, [&](FlowSlot slot) {
      return state_.flows.IsOpen(slot) && state_.flows.ActivityOf(slot).IsBusy();
    });
    if (is_idle || now - *due_ >= options_.rotate_paths_every / 2) {
      const PlannedFlows planned(state_, plan);
      return Rotate(now, plan);
    }
  }
  if (now < next_) return 0;
  next_ = now + std::max<Duration>(options_.rotate_paths_every, std::chrono::seconds(1));
  due_.reset();
  if (!IsEnabled() || !IsUneven()) {
    debts_.clear();
    looked_.reset();
    return 0;
  }
  NoteActivity();
  const PlannedFlows planned(state_, plan);
  CountDebts(now, LookAtFlows(plan));
  return Rotate(now, plan);
}

void Rotation::NoteActivity() {
  seen_.resize(std::max(seen_.size(), state_.flows.slot_count()));
  for (const FlowSlot slot : state_.flows.All()) {
    const FlowActivity& activity = state_.flows.ActivityOf(slot);
    Seen& seen = seen_[slot.Index()];
    const bool has_news =
        activity.edges != seen.edges || activity.posted_bytes != seen.posted_bytes;
    seen = {activity.posted_bytes, activity.edges, has_news || activity.IsBusy()};
  }
}

bool Rotation::MayMove(FlowSlot slot) const {
  const Flow& flow = state_.flows.At(slot);
  const Subflow& subflow = flow.subflows.front();
  return flow.CanMove() && flow.status == FlowStatus::kRouted && flow.rerouted_in < 0 &&
         !subflow.adopting && !state_.flows.PushOf(slot).is_dirty &&
         subflow.port_path == state_.flow_paths.PathOf(subflow) &&
         state_.BytesInFlight(slot) <= options_.moved_bytes_per_start;
}

Rotation::Look Rotation::LookAtFlows(const PhasePlan& plan) const {
  Look look{.idle_loads = std::vector<std::int64_t>(state_.view.capacities().size())};
  std::vector<std::int64_t> planned(look.idle_loads.size());  // loads of senders with a plan
  const auto add = [&](const Flow& flow, std::vector<std::int64_t>& loads) {
    for (const Subflow& subflow : flow.subflows) {
      for (const std::uint32_t link : state_.flow_paths.assigner().LinksOf(*subflow.id)) {
        loads[link] += ShareOf(flow, subflow);
      }
    }
  };
  std::uint32_t jobs = 0;
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (!state_.CountsAsLoad(flow)) continue;
    if (slot.Index() >= seen_.size() || !seen_[slot.Index()].was_busy) {
      add(flow, look.idle_loads);
      continue;
    }
    if (!plan.PathsOf(slot).empty()) add(flow, planned);
    look.busy.push_back(slot);
    if (flow.subflows.size() != 1 || ShareOf(flow, flow.subflows.front()) != kLoadUnit) continue;
    jobs = std::max(jobs, flow.job + 1);
    look.slots.push_back(slot);
    look.senders.push_back(
        {.subflow = *flow.subflows.front().id, .job = flow.job, .may_move = MayMove(slot)});
  }
  const std::vector<std::int64_t> worst = plan.WorstLoads();
  for (std::size_t link = 0; link < planned.size(); ++link) {
    look.idle_loads[link] += std::max<std::int64_t>(0, planned[link] - worst[link]);
  }
  SetNicRates(look);
  look.debts.resize(jobs);
  for (const Sender& sender : look.senders) {
    const auto debt = debts_.find(state_.flows.JobName(sender.job));
    if (debt != debts_.end()) look.debts[sender.job] = debt->second;
  }
  return look;
}

void Rotation::SetNicRates(Look& look) const {
  const auto capacities = state_.view.capacities_bps();
  std::vector<double> on_nics(capacities.size());  // busy flows, by directed link of a NIC
  const auto nics_of = [&](FlowSlot slot) {
    const fabric::PortKey& key = state_.flows.At(slot).key;
    fabric::DirectedLink down = state_.paths.FindAttachment(key.destination)->uplink;
    down.forward = !down.forward;
    return std::pair(state_.paths.FindAttachment(key.source)->uplink.Index(), down.Index());
  };
  for (const FlowSlot slot : look.busy) {
    const auto [up, down] = nics_of(slot);
    ++on_nics[up];
    ++on_nics[down];
  }
  for (std::size_t i = 0; i < look.slots.size(); ++i) {
    const auto [up, down] = nics_of(look.slots[i]);
    look.senders[i].nic_bps =
        std::min(capacities[up] / on_nics[up], capacities[down] / on_nics[down]);
  }
}

void Rotation::CountDebts(TimePoint now, const Look& look) {
  const double period = SecondsIn(options_.rotate_paths_every);
  const double passed = looked_ ? SecondsIn(now - *looked_) : period;
  looked_ = now;
  for (auto& [job, debt] : debts_) debt *= std::exp(-passed / (kMemory * period));
  std::erase_if(debts_, [](const auto& entry) { return entry.second < kForgotten; });
  const JobExchanges exchanges(state_.view, state_.flow_paths.assigner(), look.senders,
                               look.idle_loads);
  for (const std::uint32_t job : exchanges.SlowedJobs()) {
    debts_[state_.flows.JobName(job)] += passed;
  }
}

std::size_t Rotation::Rotate(TimePoint now, PhasePlan& plan) {
  const Look look = LookAtFlows(plan);
  JobExchanges exchanges(state_.view, state_.flow_paths.assigner(), look.senders, look.idle_loads);
  const JobExchanges::Choice choice = state_.flow_paths.Try([&](OnlineAssigner& assigner) {
    return exchanges.Choose(assigner, look.debts,
                            {.worth = SecondsIn(options_.rotate_paths_every) / 2,
                             .most_moves = kMostMoves,
                             .chain = ChainOptions(options_, kMostMoves)});
  });
  if (choice.is_refused || HasUnreachablePath(state_, choice.moves)) {
    due_.reset();
    refused_.Add();
    return 0;
  }
  if (choice.moves.empty() || HasToWait(now, look, choice)) return 0;
  due_.reset();
  return Move(now, look, choice, plan);
}

bool Rotation::HasToWait(TimePoint now, const Look& look, const JobExchanges::Choice& choice) {
  waiting_.clear();
  for (const auto& [leaving, coming] : choice.exchanged) {
    for (const std::uint32_t sender : {leaving, coming}) {
      const FlowActivity& activity = state_.flows.ActivityOf(look.slots[sender]);
      if (activity.ReportsEdges()) waiting_.push_back(look.slots[sender]);
    }
  }
  const bool is_busy = std::ranges::any_of(
      waiting_, [&](FlowSlot slot) { return state_.flows.ActivityOf(slot).IsBusy(); });
  if (!due_) due_ = now;
  return is_busy && now - *due_ < options_.rotate_paths_every / 2;
}

std::vector<std::int64_t> Rotation::WorstLoads(const PhasePlan& plan) const {
  std::vector<std::int64_t> loads = plan.WorstLoads();
  for (std::size_t link = 0; link < loads.size(); ++link) {
    loads[link] += state_.flow_paths.assigner().LoadOf(link);
  }
  for (const FlowSlot slot : plan.flows()) {
    const Flow& flow = state_.flows.At(slot);
    if (!state_.CountsAsLoad(flow)) continue;
    for (const Subflow& subflow : flow.subflows) {
      for (const std::uint32_t link : state_.flow_paths.assigner().LinksOf(*subflow.id)) {
        loads[link] -= ShareOf(flow, subflow);
      }
    }
  }
  return loads;
}

bool Rotation::Take(const std::vector<OnlineAssigner::Move>& moves,
                    const std::vector<FlowSlot>& flows, PhasePlan& plan) {
  const std::vector<std::int64_t> before = WorstLoads(plan);
  state_.flow_paths.Take(moves);
  plan.TakePresentPaths(flows);
  const std::vector<std::int64_t> after = WorstLoads(plan);
  if (!IsWorse(state_.view, after, before)) return true;
  state_.flow_paths.Take(Reversed(moves));
  plan.TakePresentPaths(flows);
  return false;
}

std::size_t Rotation::Move(TimePoint now, const Look& look, const JobExchanges::Choice& choice,
                           PhasePlan& plan) {
  const auto name_of = [&](FlowSlot slot) { return state_.FlowName(state_.flows.At(slot)); };
  const auto job_of = [&](FlowSlot slot) {
    return state_.flows.JobName(state_.flows.At(slot).job);
  };
  std::vector<std::string> texts;
  for (const auto& [leaving, coming] : choice.exchanged) {
    const FlowSlot freed = look.slots[leaving];
    const FlowSlot slowed = look.slots[coming];
    texts.push_back(
        fmt::format("freed_job={} freed_flow={} slowed_job={} slowed_flow={} from={} to={}",
                    job_of(freed), name_of(freed), job_of(slowed), name_of(slowed),
                    state_.Via(state_.flows.At(freed)), state_.Via(state_.flows.At(slowed))));
  }
  std::set<FlowSlot> moved;
  for (const OnlineAssigner::Move& move : choice.moves) {
    moved.insert(state_.flow_paths.FlowOf(move.subflow));
  }
  if (!Take(choice.moves, std::vector<FlowSlot>(moved.begin(), moved.end()), plan)) {
    refused_.Add();
    return 0;
  }
  for (const FlowSlot slot : moved) {
    state_.flows.At(slot).origin = DecisionOrigin::kRotation;
    ports_.ChoosePorts(slot, wire::PathReason::kRecomputed);
  }
  exchanges_.Add(static_cast<std::int64_t>(choice.exchanged.size()));
  moved_.Add(static_cast<std::int64_t>(moved.size()));
  for (const std::string& text : texts) {
    state_.history.RecordOf("controller", now, "paths_exchanged",
                            fmt::format("{} moved={}", text, moved.size()));
  }
  return moved.size();
}

}  // namespace espalier::controller
