#include "controller/operations/operation_queue.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"
#include "controller/operations/intent_edits.h"
#include "controller/operations/maintenance_edits.h"
#include "controller/placement/verify/port_verifier.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kMaxOperations = 64;  // waiting or in progress
constexpr const char* kExpire = "expire";   // the action that removes intents at their end
constexpr Duration kHeldWindowInterval = std::chrono::seconds(10);

}  // namespace

OperationQueue::OperationQueue(State& state, ActionTarget& target, const ControllerOptions& options,
                               EventLoop& loop, Store& store, std::function<void()> on_outcome,
                               Metrics& metrics)
    : state_(state),
      target_(target),
      options_(options),
      loop_(loop),
      store_(store),
      on_outcome_(std::move(on_outcome)),
      commit_seconds_(metrics.MakeLatency(
          "espalier_controller_commit_seconds",
          "Time from the start of an operator's action until it was durable in the store")),
      action_seconds_(metrics.MakeLatency("espalier_controller_action_seconds",
                                          "Time from an operator's request until the action was "
                                          "durable and its moves were pushed")) {}

void OperationQueue::Submit(Operation operation) {
  if (operation.request.dry_run) return CompleteDryRun(operation);
  if (operations_.size() >= kMaxOperations) {
    return operation.done(
        Fail(ErrorCode::kResourceExhausted,
             fmt::format("{} actions are already waiting (try again later)", kMaxOperations)));
  }
  operation.asked = loop_.Now();
  operations_.push_back(std::move(operation));
  if (operations_.size() == 1) Start();
}

void OperationQueue::CompleteDryRun(const Operation& operation) {
  ActionOutcome outcome;
  if (operation.change) {
    Result<Intents> changed = operation.change();
    if (!changed) return operation.done(Propagate(changed));
    outcome = target_.Try(*changed);
    outcome.intents = ChangesBetween(state_.intents, *changed);
  } else {
    outcome = target_.Reassign(operation.request);
  }
  outcome.version = state_.topology.version();
  outcome.revision = state_.revision;
  outcome.question = QuestionFor(outcome);
  operation.done(std::move(outcome));
}

std::string OperationQueue::QuestionFor(const ActionOutcome& outcome) const {
  const std::size_t limit = options_.confirm_moves_above;
  if (limit == 0 || outcome.moves.size() <= limit) return "";
  return fmt::format("this would move {} flows, more than confirm_moves_above ({})",
                     outcome.moves.size(), limit);
}

Result<void> OperationQueue::CheckConfirmed(const OperatorRequest& request,
                                            const std::optional<Intents>& changed) {
  if (request.force || options_.confirm_moves_above == 0) return {};
  OperatorRequest trial = request;
  trial.dry_run = true;
  const std::string question =
      QuestionFor(changed ? target_.Try(*changed) : target_.Reassign(trial));
  if (question.empty()) return {};
  return Fail(
      ErrorCode::kFailedPrecondition,
      fmt::format("{} (confirm it with --force or force=true; a dry run shows which)", question));
}

AuditEntry OperationQueue::AuditOf(const Operation& operation) const {
  AuditEntry entry;
  entry.time = options_.wall_clock();
  entry.actor = operation.request.actor;
  entry.action = operation.action;
  entry.target = operation.target;
  entry.reason = operation.request.reason;
  entry.until = operation.request.until;
  return entry;
}

void OperationQueue::Start() {
  Operation& operation = operations_.front();
  StoreChange change;
  change.audit = AuditOf(operation);
  const auto refuse = [&](const Error& error) {
    change.intents.reset();
    change.audit->result = AuditResult::kRefused;
    change.audit->detail = error.message;
    // The action stays refused even where the audit entry cannot be written.
    store_.Commit(std::move(change),
                  [this, error](const auto&) { Finish(tl::unexpected<Error>(error)); });
  };
  if (operation.change) {
    Result<Intents> changed = operation.change();
    if (!changed) return refuse(changed.error());
    change.intents = std::move(*changed);
    change.topology = {state_.topology.name(), state_.topology.version()};
  }
  const Result<void> confirmed = CheckConfirmed(operation.request, change.intents);
  if (!confirmed) return refuse(confirmed.error());
  std::optional<Intents> changed = change.intents;
  store_.Commit(std::move(change),
                [this, changed = std::move(changed), start = loop_.Now()](Result<Committed> done) {
                  commit_seconds_.ObserveSeconds(SecondsOf(loop_.Now() - start));
                  HandleCommit(std::move(done), changed);
                });
}

// The action is durable, so that it may move flows.
void OperationQueue::HandleCommit(Result<Committed> committed,
                                  const std::optional<Intents>& changed) {
  const Operation& operation = operations_.front();
  if (!committed) {
    // The audit log cannot tell of it. An expiry, which is tried again, has an event of its own.
    if (operation.action != kExpire) {
      state_.history.Record(
          loop_.Now(), "action_not_stored",
          fmt::format("action=\"{}\" target={} actor=\"{}\" error=\"{}\"", operation.action,
                      operation.target, operation.request.actor, committed.error().message));
    }
    return Finish(Propagate(committed));
  }
  std::vector<IntentChange> changes;
  if (changed) changes = ChangesBetween(state_.intents, *changed);
  state_.revision = committed->revision;
  pending_ = Pending{.applied = changed ? target_.Apply(*changed)
                                        : AppliedAction{target_.Reassign(operation.request)},
                     .audit_sequence = committed->audit_sequence};
  ActionOutcome& outcome = pending_->applied.outcome;
  outcome.version = state_.topology.version();
  outcome.revision = state_.revision;
  outcome.intents = std::move(changes);
  RecordEvent(operation, changed.has_value());
  target_.Turn();  // not posted to the loop: flows on a dead path wait for it
  action_seconds_.ObserveSeconds(SecondsOf(loop_.Now() - operation.asked));
  for (const Rerouted& moved : pending_->applied.rerouted) {
    const std::pair push(moved.agent, state_.agents.At(moved.agent).generation);
    if (pending_->awaited.empty() || pending_->awaited.back() != push)
      pending_->awaited.push_back(push);
  }
  if (IsAcknowledged()) return Complete();
  timer_ = loop_.After(PortVerifier::kAcknowledgementPatience, [this] { Complete(); });
}

void OperationQueue::RecordEvent(const Operation& operation, bool has_intents) {
  const ActionOutcome& outcome = pending_->applied.outcome;
  const std::string text =
      has_intents
          ? fmt::format("{}{}version={} moved={}", operation.subject,
                        operation.subject.empty() ? "" : " ", outcome.version,
                        pending_->applied.rerouted.size() + outcome.moves.size())
          : fmt::format("moved={} max_load={} bound={}", outcome.moves.size(),
                        outcome.after.max_load.ToString(), outcome.after.lower_bound.ToString());
  state_.history.Record(loop_.Now(), operation.event, text);
}

bool OperationQueue::IsAcknowledged() {
  for (std::size_t& count = pending_->acknowledged; count < pending_->awaited.size(); ++count) {
    const auto& [id, generation] = pending_->awaited[count];
    const Agent& agent = state_.agents.At(id);
    if (agent.peer && agent.acked_generation < generation) return false;
  }
  return true;
}

void OperationQueue::HandleAck() {
  if (!pending_ || !timer_ || !IsAcknowledged()) return;
  timer_ = loop_.After(Duration::zero(), [this] { Complete(); });
}

void OperationQueue::Complete() {
  timer_.reset();
  Pending pending = *std::exchange(pending_, std::nullopt);
  target_.ComputeOutcome(pending.applied);
  ActionOutcome& outcome = pending.applied.outcome;
  std::vector<AuditMove> moves;
  moves.reserve(outcome.moves.size());
  for (const FlowMove& move : outcome.moves) {
    moves.push_back({move.flow, move.job, move.from, move.to});
  }
  store_.FinishAudit(pending.audit_sequence, std::move(moves),
                     [this, outcome = std::move(outcome)](const Result<void>& finished) {
                       if (!finished) {
                         state_.history.Record(loop_.Now(), "audit_unfinished",
                                               finished.error().message);
                       }
                       Finish(outcome);  // the action is durable all the same
                     });
  on_outcome_();
}

void OperationQueue::Finish(Result<ActionOutcome> outcome) {
  ESPALIER_CHECK(!operations_.empty());
  const ActionDone done = std::move(operations_.front().done);
  operations_.pop_front();
  if (!operations_.empty()) Start();
  done(std::move(outcome));
}

bool OperationQueue::DropExpired(Intents& intents) {
  return DropEnded(intents, [&](const Intent& intent) {
    return intent_ends_.HasEnded(intent, loop_.Now(), options_.wall_clock());
  });
}

void OperationQueue::ApplySchedule() {
  if (!operations_.empty()) return;
  if (!EndExpired()) BeginWindows();
}

bool OperationQueue::IsHeld(const std::string& name, const MaintenanceWindow& window,
                            const Intents& begun) {
  if (window.is_forced) return false;
  const ActionOutcome trial = target_.Try(begun);
  const std::int64_t lost = trial.after.reach.CutOff() - trial.before.reach.CutOff();
  if (lost <= 0) return false;
  next_window_check_ = loop_.Now() + kHeldWindowInterval;
  if (state_.held_windows.insert(name).second) {
    state_.history.Record(
        loop_.Now(), "maintenance_held",
        fmt::format("window={} {}={} would_cut_off={}", name, window.kind, window.id, lost));
  }
  return true;
}

void OperationQueue::BeginWindows() {
  const IntentById& windows = state_.intents.maintenance;
  std::erase_if(state_.held_windows,
                [&](const std::string& name) { return !windows.contains(name); });
  const bool tries_held = loop_.Now() >= next_window_check_;
  for (const auto& [name, intent] : windows) {
    const auto* const window = std::get_if<MaintenanceWindow>(&intent.value);
    if (window == nullptr || window->has_begun) continue;
    if (state_.held_windows.contains(name) && !tries_held) continue;
    Intent beginning = intent;
    beginning.until = window->from;
    if (!window_begins_.HasEnded(beginning, loop_.Now(), options_.wall_clock())) continue;
    const Result<Intents> begun = BeginWindow(state_.intents, name);
    if (!begun || IsHeld(name, *window, *begun)) continue;
    state_.held_windows.erase(name);
    return Submit(
        {"begin maintenance",
         fmt::format("{} {} {}", name, window->kind, window->id),
         {.actor = intent.actor, .reason = intent.reason, .until = intent.until, .force = true},
         "maintenance_begun",
         fmt::format("window={} {}={}", name, window->kind, window->id),
         [this, name = name] { return BeginWindow(state_.intents, name); },
         [this](const Result<ActionOutcome>& outcome) {
           if (outcome) return;
           state_.history.Record(loop_.Now(), "maintenance_not_stored", outcome.error().message);
         }});
  }
}

bool OperationQueue::EndExpired() {
  Intents remaining = state_.intents;
  if (!DropExpired(remaining)) return false;
  Submit({kExpire,
          "",
          {.actor = "espalier", .reason = "the end time given with it has passed", .force = true},
          "intents_expired",
          "",
          [this]() -> Result<Intents> {
            Intents intents = state_.intents;
            DropExpired(intents);
            return intents;
          },
          [this](const Result<ActionOutcome>& outcome) {
            if (outcome) return;
            state_.history.Record(loop_.Now(), "expiry_not_stored", outcome.error().message);
          }});
  return true;
}

}  // namespace espalier::controller
