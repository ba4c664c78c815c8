// What the controller does on the word of operators, and what it stores of it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "controller/controller.h"

namespace espalier::controller {

using fabric::LinkId;
using fabric::LinkState;

namespace {

constexpr std::size_t kMostOperations = 64;  // those that wait, the one at hand included
constexpr std::size_t kEventsAtOnce = 1'000;
constexpr Duration kExpiryCheckInterval = std::chrono::seconds(1);

struct ActionWords {
  bool add;  // an intent is added, or taken back
  std::string_view verb;
  std::string_view past;
  std::string_view already;
};

ActionWords WordsFor(IntentAction action) {
  switch (action) {
    case IntentAction::kFail:
      return {true, "fail", "failed", "is failed already"};
    case IntentAction::kRestore:
      return {false, "restore", "restored", "is not failed"};
    case IntentAction::kDrain:
      return {true, "drain", "drained", "is drained already"};
    case IntentAction::kUndrain:
      return {false, "undrain", "undrained", "is not drained"};
  }
  return {};
}

// True if the set of intents changed.
bool Change(IntentById& intents, const std::string& id, bool add, const Intent& intent) {
  return add ? intents.emplace(id, intent).second : intents.erase(id) > 0;
}

template <typename HasEnded>
bool DropEnded(Intents& intents, const HasEnded& has_ended) {
  std::size_t dropped = 0;
  for (IntentById* members :
       {&intents.failed_links, &intents.failed_nodes, &intents.drained_links,
        &intents.drained_nodes, &intents.restored_links, &intents.weights, &intents.policies}) {
    dropped +=
        std::erase_if(*members, [&](const auto& member) { return has_ended(member.second); });
  }
  return dropped > 0;
}

}  // namespace

bool Controller::DropExpired(Intents& intents) {
  return DropEnded(intents, [&](const Intent& intent) {
    return intent_ends_.HasEnded(intent, loop_.Now(), WallNow());
  });
}

LinkState Controller::EffectiveState(LinkId id, const Intents& intents) const {
  const fabric::Link& link = state_.topology.link(id);
  const auto has_end = [&](const IntentById& nodes) {
    return nodes.contains(state_.topology.node(link.a).id) ||
           nodes.contains(state_.topology.node(link.b).id);
  };
  const LinkState in_file =
      intents.restored_links.contains(link.id) ? LinkState::kUp : initial_states_[id.Index()];
  if (intents.failed_links.contains(link.id) || has_end(intents.failed_nodes) ||
      state_.reported_down.contains(id) || state_.detected_down.contains(id) ||
      in_file == LinkState::kDown) {
    return LinkState::kDown;
  }
  const bool drained = intents.drained_links.contains(link.id) || has_end(intents.drained_nodes);
  return drained ? LinkState::kDrained : in_file;
}

std::vector<LinkId> Controller::ApplyIntents() {
  std::vector<LinkId> changed;
  for (std::size_t i = 0; i < state_.topology.links().size(); ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    if (state_.topology.SetLinkState(id, EffectiveState(id, state_.intents))) {
      changed.push_back(id);
    }
  }
  stranded_.clear();
  if (!changed.empty()) {
    state_.view.Refresh();
    const auto stranded = state_.live.HandleLinkChange();
    stranded_.assign(stranded.begin(), stranded.end());
  }
  return changed;
}

std::vector<Placement::Rerouted> Controller::TakeFailurePlan(const std::vector<LinkId>& changed) {
  const auto element = options_.plan_ahead ? failure_plans_.Find(changed) : std::nullopt;
  if (!element || stranded_.empty()) return {};
  const TimePoint start = loop_.Now();
  auto rerouted =
      placement_.TakeFailurePlan(failure_plans_, *element, stranded_,
                                 [&](AgentId agent) { publisher_.PushChangesOf(agent, start); });
  failure_hits_.Add(static_cast<std::int64_t>(rerouted.size()));
  failure_seconds_.ObserveSeconds(std::chrono::duration<double>(loop_.Now() - start).count());
  return rerouted;
}

std::vector<Placement::Rerouted> Controller::FollowLinkChanges(const std::vector<LinkId>& changed) {
  if (changed.empty()) return {};
  learner_.HandleLinkChange(changed);
  std::vector<Placement::Rerouted> moves = placement_.HandleLinkChange();
  failure_misses_.Add(static_cast<std::int64_t>(moves.size()));
  placement_.RetryUnroutable();
  jobs_.HandleLinkChange(changed);
  RequestVerification();
  return moves;
}

void Controller::ReactToReports() {
  const std::vector<LinkId> changed = ApplyIntents();
  TakeFailurePlan(changed);
  FollowLinkChanges(changed);
  RequestTurn();
}

ActionOutcome Controller::WouldDo(const Intents& intents) {
  ActionOutcome outcome;
  outcome.before = outcome.after = Summarize(state_);
  fabric::Topology trial = state_.topology;
  bool changes_links = false;
  for (std::size_t i = 0; i < trial.links().size(); ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    changes_links |= trial.SetLinkState(id, EffectiveState(id, intents));
  }
  const bool reweighs = intents.weights != state_.intents.weights;
  if (!changes_links && !reweighs) return outcome;
  Placement::Recomputation tried =
      changes_links ? placement_.TryLinkChange(trial, reweighs ? &intents.weights : nullptr)
                    : placement_.Recompute(intents.weights, /*dry_run=*/true);
  outcome.moves = std::move(tried.moves);
  outcome.after = tried.after;
  return outcome;
}

void Controller::Submit(Operation operation) {
  if (operation.request.dry_run) return TellDryRun(operation);
  if (operations_.size() >= kMostOperations) {
    return operation.done(
        Fail(ErrorCode::kResourceExhausted,
             fmt::format("{} actions wait already (try again)", kMostOperations)));
  }
  operation.asked = loop_.Now();
  operations_.push_back(std::move(operation));
  if (operations_.size() == 1) StartOperation();
}

void Controller::TellDryRun(const Operation& operation) {
  ActionOutcome outcome;
  if (operation.change) {
    Result<Intents> changed = operation.change();
    if (!changed) return operation.done(Propagate(changed));
    outcome = WouldDo(*changed);
  } else {
    outcome = Reassign(operation.request);
  }
  outcome.version = state_.topology.version();
  outcome.revision = state_.revision;
  operation.done(std::move(outcome));
}

AuditEntry Controller::AuditOf(const Operation& operation) const {
  AuditEntry entry;
  entry.time = WallNow();
  entry.actor = operation.request.actor;
  entry.action = operation.action;
  entry.target = operation.target;
  entry.reason = operation.request.reason;
  entry.until = operation.request.until;
  return entry;
}

void Controller::StartOperation() {
  Operation& operation = operations_.front();
  StoreChange change;
  change.audit = AuditOf(operation);
  if (operation.change) {
    Result<Intents> changed = operation.change();
    if (!changed) {
      change.audit->result = AuditResult::kRefused;
      change.audit->detail = changed.error().message;
      // Not having written the refusal down does not make it less of one.
      return store_.Commit(std::move(change), [this, error = changed.error()](const auto&) {
        FinishOperation(tl::unexpected<Error>(error));
      });
    }
    change.intents = std::move(*changed);
    change.topology = {state_.topology.name(), state_.topology.version()};
  }
  std::optional<Intents> changed = change.intents;
  store_.Commit(std::move(change),
                [this, changed = std::move(changed), start = loop_.Now()](Result<Committed> done) {
                  commit_seconds_.ObserveSeconds(SecondsSince(start));
                  HandleCommit(std::move(done), changed);
                });
}

// It is durable: now it may move flows.
void Controller::HandleCommit(Result<Committed> committed, const std::optional<Intents>& changed) {
  if (!committed) return FinishOperation(Propagate(committed));
  state_.revision = committed->revision;
  done_ = changed ? Apply(*changed) : Done{.outcome = Reassign(operations_.front().request)};
  done_->audit_sequence = committed->audit_sequence;
  ActionOutcome& outcome = done_->outcome;
  outcome.version = state_.topology.version();
  outcome.revision = state_.revision;
  const Operation& operation = operations_.front();
  state_.history.Record(loop_.Now(), operation.event,
                        changed ? fmt::format("{}{}version={} moved={}", operation.subject,
                                              operation.subject.empty() ? "" : " ", outcome.version,
                                              done_->rerouted.size() + outcome.moves.size())
                                : fmt::format("moved={} max_load={} bound={}", outcome.moves.size(),
                                              outcome.after.max_load.ToString(),
                                              outcome.after.lower_bound.ToString()));
  Turn();  // now, not when the loop comes to it: flows on a dead path wait for this
  action_seconds_.ObserveSeconds(SecondsSince(operation.asked));
  for (const Placement::Rerouted& moved : done_->rerouted) {
    const std::uint64_t generation = state_.agents.At(moved.agent).generation;
    const std::pair told(moved.agent, generation);
    if (done_->told.empty() || done_->told.back() != told) done_->told.push_back(told);
  }
  if (HasHeard(*done_)) return TellDone();
  tell_timer_ = loop_.After(kAcknowledgementPatience, [this] { TellDone(); });
}

bool Controller::HasHeard(Done& done) const {
  for (; done.heard < done.told.size(); ++done.heard) {
    const auto& [id, generation] = done.told[done.heard];
    const Agent& agent = state_.agents.At(id);
    if (agent.peer && agent.acked_generation < generation) return false;
  }
  return true;
}

void Controller::TellWhenHeard() {
  if (!done_ || !tell_timer_ || !HasHeard(*done_)) return;
  tell_timer_ = loop_.After(Duration::zero(), [this] { TellDone(); });
}

void Controller::TellDone() {
  tell_timer_.reset();
  Done done = *std::exchange(done_, std::nullopt);
  Reckon(done);
  std::vector<AuditMove> moves;
  moves.reserve(done.outcome.moves.size());
  for (const FlowMove& move : done.outcome.moves) {
    moves.push_back({move.flow, move.job, move.from, move.to});
  }
  store_.FinishAudit(done.audit_sequence, std::move(moves),
                     [this, outcome = std::move(done.outcome)](const Result<void>& finished) {
                       if (!finished) {
                         state_.history.Record(loop_.Now(), "audit_unfinished",
                                               finished.error().message);
                       }
                       FinishOperation(outcome);  // which has been done, and is durable
                     });
  RequestForesight();
}

void Controller::Reckon(Done& done) {
  if (done.changed.empty()) return;
  fabric::Topology before = state_.topology;
  for (const auto& [link, state] : done.changed) before.SetLinkState(link, state);
  done.outcome.before = placement_.SummarizeBefore(before, done.rerouted);
  done.outcome.moves = placement_.Describe(done.rerouted);
  done.outcome.after = Summarize(state_);
  done.rerouted.clear();
  done.changed.clear();
}

ActionOutcome Controller::Reassign(const OperatorRequest& request) {
  const TimePoint start = loop_.Now();
  Placement::Recomputation recomputed =
      placement_.Recompute(state_.intents.weights, request.dry_run, request.max_moved_bytes);
  recompute_seconds_.ObserveSeconds(SecondsSince(start));
  ActionOutcome outcome;
  if (!request.dry_run) {
    recomputations_.Add();
    outcome.forests = jobs_.PlanAllAnew();  // on what the flows leave now
  }
  outcome.moves = std::move(recomputed.moves);
  outcome.before = recomputed.before;
  outcome.after = recomputed.after;
  return outcome;
}

Controller::Done Controller::Apply(const Intents& changed) {
  const bool reweighs = changed.weights != state_.intents.weights;
  std::vector<LinkState> states_before;
  for (const fabric::Link& link : state_.topology.links()) states_before.push_back(link.state);
  state_.intents = changed;
  ApplyPolicies();
  const std::vector<LinkId> links = ApplyIntents();
  Done done;
  for (const LinkId link : links) done.changed.emplace_back(link, states_before[link.Index()]);
  // First what is ready: the rest looks at every flow.
  done.rerouted = TakeFailurePlan(links);
  const std::vector<Placement::Rerouted> others = FollowLinkChanges(links);
  done.rerouted.insert(done.rerouted.end(), others.begin(), others.end());
  jobs_.Apply(changed.jobs);
  if (!reweighs && !links.empty()) return done;
  // What moves by weights is told of against what has moved before.
  if (links.empty()) {
    done.outcome.before = Summarize(state_);
  } else {
    Reckon(done);
  }
  if (reweighs) {
    const auto reweighed = placement_.Recompute(changed.weights, /*dry_run=*/false);
    std::vector<FlowMove>& moves = done.outcome.moves;
    moves.insert(moves.end(), reweighed.moves.begin(), reweighed.moves.end());
  }
  done.outcome.after = Summarize(state_);
  return done;
}

void Controller::FinishOperation(Result<ActionOutcome> outcome) {
  ESPALIER_CHECK(!operations_.empty());
  const ActionDone done = std::move(operations_.front().done);
  operations_.pop_front();
  if (!operations_.empty()) StartOperation();
  done(std::move(outcome));
}

Result<Intents> Controller::ChangedIntents(const std::string& id, bool is_link, IntentAction action,
                                           const OperatorRequest& request) const {
  const auto link = is_link ? state_.topology.FindLink(id) : std::nullopt;
  if (is_link && !link) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no link \"{}\" (`espalier links` lists them)", id));
  }
  if (!is_link && !state_.topology.FindNode(id)) {
    return Fail(ErrorCode::kNotFound, fmt::format("there is no node \"{}\"", id));
  }
  const ActionWords words = WordsFor(action);
  if (Result<void> right = CheckEnd(request, words.add, words.verb); !right) {
    return Propagate(right);
  }
  Intents changed = state_.intents;
  const bool drains = action == IntentAction::kDrain || action == IntentAction::kUndrain;
  IntentById& of_links = drains ? changed.drained_links : changed.failed_links;
  IntentById& of_nodes = drains ? changed.drained_nodes : changed.failed_nodes;
  const Intent intent{request.reason, request.actor, WallNow(), request.until};
  // What the topology file has as failed or drained is so without an intent.
  const LinkState meant = drains ? LinkState::kDrained : LinkState::kDown;
  const bool in_file = is_link && initial_states_[link->Index()] == meant;
  const bool is_news = in_file ? Change(changed.restored_links, id, !words.add, intent)
                               : Change(is_link ? of_links : of_nodes, id, words.add, intent);
  if (!is_news) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("{} {} {}", is_link ? "link" : "node", id, words.already));
  }
  return changed;
}

void Controller::ChangeLink(const std::string& link, IntentAction action,
                            const OperatorRequest& request, ActionDone done) {
  const ActionWords words = WordsFor(action);
  Submit({fmt::format("{} link", words.verb), link, request, fmt::format("link_{}", words.past),
          fmt::format("link={}", link),
          [this, link, action, request] { return ChangedIntents(link, true, action, request); },
          std::move(done)});
}

void Controller::ChangeNode(const std::string& node, IntentAction action,
                            const OperatorRequest& request, ActionDone done) {
  const ActionWords words = WordsFor(action);
  Submit({fmt::format("{} node", words.verb), node, request, fmt::format("node_{}", words.past),
          fmt::format("node={}", node),
          [this, node, action, request] { return ChangedIntents(node, false, action, request); },
          std::move(done)});
}

void Controller::Recompute(OperatorRequest request, ActionDone done) {
  Submit({"recompute", "", std::move(request), "recomputed", "", nullptr, std::move(done)});
}

void Controller::RollBack(std::optional<std::uint64_t> revision, OperatorRequest request,
                          ActionDone done) {
  const std::uint64_t target =
      revision.value_or(state_.revision - std::min<std::uint64_t>(state_.revision, 1));
  const auto submit = [this, target, request = std::move(request),
                       done = std::move(done)](const Result<Intents>& found) {
    Submit({"rollback", fmt::format("revision {}", target), request, "rolled_back",
            fmt::format("to_revision={}", target),
            [this, found]() -> Result<Intents> {
              if (!found) return found;
              Intents intents = *found;
              DropExpired(intents);
              if (intents == state_.intents) {
                return Fail(ErrorCode::kAlreadyExists, "the intents are as they were then");
              }
              return intents;
            },
            done});
  };
  if (target == 0) return submit(Intents{});  // before the first
  store_.ReadIntents(target, submit);
}

void Controller::ReadAudit(std::uint64_t since, std::size_t most,
                           Store::Done<std::vector<AuditEntry>> done) {
  store_.ReadAudit(since, most, std::move(done));
}

void Controller::EndExpiredIntents() {
  if (loop_.Now() < next_expiry_check_ || !operations_.empty()) return;
  next_expiry_check_ = loop_.Now() + kExpiryCheckInterval;
  Intents remaining = state_.intents;
  if (!DropExpired(remaining)) return;
  Submit({"expire",
          "",
          {.actor = "espalier", .reason = "the time given with it is over"},
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
}

void Controller::RaiseEpoch(std::uint64_t at_least, std::function<void(Result<void>)> done) {
  epoch_waiters_.push_back(std::move(done));
  if (epoch_waiters_.size() > 1) return;  // each asks again where the one at hand is not enough
  const std::uint64_t epoch = std::max(state_.epoch, at_least) + 1;
  StoreChange change;
  change.epoch = epoch;
  store_.Commit(std::move(change), [this, epoch](Result<Committed> committed) {
    if (committed) {
      state_.epoch = epoch;
      for (std::size_t i = 0; i < state_.agents.size(); ++i) {
        const AgentId id(static_cast<std::int32_t>(i));
        Agent& agent = state_.agents.At(id);
        agent.generation = agent.acked_generation = 0;
        state_.agents.QueueFullPush(id);
      }
    }
    for (const auto& waiter : std::exchange(epoch_waiters_, {})) {
      waiter(committed ? Result<void>() : Result<void>(tl::unexpected(committed.error())));
    }
  });
}

void Controller::RestoreHistory(const std::vector<StoredEvent>& events) {
  // The history counts in the loop's time, the store in the calendar's.
  const WallTime wall_now = WallNow();
  std::vector<HistoryEvent> restored;
  for (const StoredEvent& event : events) {
    restored.push_back({event.sequence, loop_.Now() - (wall_now - event.time), event.kind,
                        event.text, event.source});
  }
  state_.history.Restore(std::move(restored));
  stored_event_ = state_.history.last_sequence();
}

void Controller::StoreEvents() {
  const TimePoint now = loop_.Now();
  const WallTime wall_now = WallNow();
  std::vector<StoredEvent> events;
  for (const HistoryEvent& event : state_.history.Since(stored_event_, kEventsAtOnce)) {
    const auto age = std::chrono::duration_cast<WallTime::duration>(now - event.time);
    events.push_back({event.sequence, wall_now - age, event.kind, event.text, event.source});
  }
  if (events.empty()) return;
  stored_event_ = events.back().sequence;
  store_.AppendEvents(std::move(events));
}

}  // namespace espalier::controller
