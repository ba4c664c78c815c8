#include "controller/operations/operator_actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "controller/operations/maintenance_edits.h"
#include "controller/operations/steering_edits.h"

namespace espalier::controller {
namespace {

// The name of the action in the audit log.
constexpr const char* kRollBack = "rollback";

}  // namespace

void OperatorActions::ChangeLink(const std::string& link, IntentAction action,
                                 const OperatorRequest& request, ActionDone done) {
  const ActionWords words = WordsFor(action);
  queue_.Submit({fmt::format("{} link", words.verb), link, request,
                 fmt::format("link_{}", words.past), fmt::format("link={}", link),
                 [this, link, action, request] {
                   return ChangeLinkIntent(state_.intents, state_.topology, link_states_.in_file(),
                                           link, action, request, Now());
                 },
                 std::move(done)});
}

void OperatorActions::ChangeNode(const std::string& node, IntentAction action,
                                 const OperatorRequest& request, ActionDone done) {
  const ActionWords words = WordsFor(action);
  queue_.Submit({fmt::format("{} node", words.verb), node, request,
                 fmt::format("node_{}", words.past), fmt::format("node={}", node),
                 [this, node, action, request] {
                   return ChangeNodeIntent(state_.intents, state_.topology, node, action, request,
                                           Now());
                 },
                 std::move(done)});
}

void OperatorActions::ChangeWeight(const std::string& job, std::uint64_t weight,
                                   const OperatorRequest& request, ActionDone done) {
  queue_.Submit({"set weight", fmt::format("{}={}", job, weight), request, "weight_set",
                 fmt::format("job={} weight={}", job, weight),
                 [this, job, weight, request] {
                   return ChangeWeightIntent(state_.intents, job, weight, request, Now());
                 },
                 std::move(done)});
}

void OperatorActions::ChangePolicy(const std::string& name, const std::optional<std::string>& value,
                                   const OperatorRequest& request, ActionDone done) {
  const std::string target = value ? fmt::format("{}={}", name, *value) : name;
  queue_.Submit({value ? "set policy" : "reset policy", target, request,
                 value ? "policy_set" : "policy_reset", fmt::format("policy={}", target),
                 [this, name, value, request] {
                   return ChangePolicyIntent(state_.intents, name, value, request, Now());
                 },
                 std::move(done)});
}

void OperatorActions::ChangeSteering(std::vector<std::string> hosts, std::vector<std::string> jobs,
                                     std::optional<std::uint64_t> percent, bool on,
                                     const OperatorRequest& request, ActionDone done) {
  const std::string_view state = on ? "on" : "off";
  const std::string target = FormatScope({.hosts = hosts, .jobs = jobs, .percent = percent});
  queue_.Submit({fmt::format("steering {}", state), target, request,
                 fmt::format("steering_{}", state), fmt::format("scope=\"{}\"", target),
                 [this, hosts = std::move(hosts), jobs = std::move(jobs), percent, on, request] {
                   return ChangeSteeringIntent(state_.intents, state_.topology,
                                               {.hosts = hosts, .jobs = jobs, .percent = percent},
                                               on, request, Now());
                 },
                 std::move(done)});
}

void OperatorActions::AddMaintenance(const std::string& kind, const std::string& id, WallTime from,
                                     const OperatorRequest& request, ActionDone done) {
  queue_.Submit(
      {"add maintenance", fmt::format("{} {} from {}", kind, id, FormatWallTime(from)), request,
       "maintenance_added", fmt::format("{}={} from={}", kind, id, FormatWallTime(from)),
       [this, kind, id, from, request] {
         return AddWindow(state_.intents, state_.topology, kind, id, from, request, Now());
       },
       std::move(done)});
}

void OperatorActions::CancelMaintenance(const std::string& window, const OperatorRequest& request,
                                        ActionDone done) {
  queue_.Submit({"cancel maintenance", window, request, "maintenance_cancelled",
                 fmt::format("window={}", window),
                 [this, window] { return CancelWindow(state_.intents, window); }, std::move(done)});
}

void OperatorActions::ApplyTopology(fabric::Topology after, const OperatorRequest& request,
                                    ActionDone done) {
  const std::string name = after.name();
  queue_.Submit(
      {"apply topology", name, request, "topology_applied", fmt::format("topology={}", name),
       [this, after = std::move(after), request]() -> Result<Intents> {
         const Result<void> checked = CheckEffects(ComputeEffects(state_, after), request.force);
         if (!checked) return tl::unexpected<Error>(checked.error());
         return state_.intents;
       },
       std::move(done)});
}

void OperatorActions::ForgetUnknown() {
  const TopologyEffects effects = ComputeEffects(state_, state_.topology);
  if (effects.dropped.empty()) return;
  queue_.Submit(
      {"forget intents",
       fmt::format("{}", fmt::join(effects.dropped, ", ")),
       {.actor = "espalier",
        .reason = "the topology that was applied does not have them",
        .force = true},
       "intents_forgotten",
       fmt::format("intents=\"{}\"", fmt::join(effects.dropped, ", ")),
       [this] { return Result<Intents>(ComputeEffects(state_, state_.topology).intents); },
       [](const Result<ActionOutcome>&) {}});  // a refusal leaves them without effect
}

void OperatorActions::Recompute(const OperatorRequest& request, ActionDone done) {
  queue_.Submit({"recompute", "", request, "recomputed", "", nullptr, std::move(done)});
}

void OperatorActions::RollBack(std::optional<std::uint64_t> revision,
                               const OperatorRequest& request, ActionDone done) {
  if (revision) return RollBackTo(*revision, request, std::move(done));
  constexpr std::size_t kLatest = 1'000;
  store_.ReadAudit(0, kLatest, [this, request, done = std::move(done)](const auto& entries) {
    if (!entries) return done(tl::unexpected<Error>(entries.error()));
    const auto last =
        std::find_if(entries->rbegin(), entries->rend(),
                     [&](const AuditEntry& entry) { return entry.revision == state_.revision; });
    // To go back again would take the rollback back.
    if (last != entries->rend() && last->action == kRollBack) {
      return done(
          Fail(ErrorCode::kFailedPrecondition,
               fmt::format("the last change was a rollback itself, to {} (name the revision "
                           "to return to with --to; `espalier audit` lists them)",
                           last->target)));
    }
    RollBackTo(state_.revision - std::min<std::uint64_t>(state_.revision, 1), request, done);
  });
}

void OperatorActions::RollBackTo(std::uint64_t target, const OperatorRequest& request,
                                 ActionDone done) {
  const auto submit = [this, target, request,
                       done = std::move(done)](const Result<Intents>& found) {
    queue_.Submit({kRollBack, fmt::format("revision {}", target), request, "rolled_back",
                   fmt::format("to_revision={}", target),
                   [this, found]() -> Result<Intents> {
                     if (!found) return found;
                     Intents intents = *found;
                     queue_.DropExpired(intents);
                     if (intents == state_.intents) {
                       return Fail(ErrorCode::kAlreadyExists,
                                   "the intents are already those of that revision");
                     }
                     return intents;
                   },
                   done});
  };
  if (target == 0) return submit(Intents{});  // the state before the first revision
  store_.ReadIntents(target, submit);
}

void OperatorActions::StartJob(const JobSpec& spec, const OperatorRequest& request,
                               ActionDone done) {
  if (request.until) {
    return done(Fail(ErrorCode::kInvalidArgument,
                     "`job start` does not take --until (end the job with `espalier job stop`)"));
  }
  const auto submit = [this, spec, request, done = std::move(done)](const Result<void>& prepared) {
    queue_.Submit({"start job", spec.name, request, "job_started", fmt::format("job={}", spec.name),
                   [this, spec, request, prepared]() -> Result<Intents> {
                     if (!prepared) return tl::unexpected<Error>(prepared.error());
                     if (Result<void> possible = jobs_.Check(spec); !possible)
                       return Propagate(possible);
                     return AddJobIntent(state_.intents, {spec, jobs_.ChooseListenPorts(spec)},
                                         request, Now());
                   },
                   done});
  };
  // A request that Check refuses needs no forest.
  const Result<void> possible = jobs_.Check(spec);
  if (!possible) return submit(possible);
  jobs_.Prepare(spec, submit);
}

void OperatorActions::StopJob(const std::string& name, const OperatorRequest& request,
                              ActionDone done) {
  queue_.Submit({"stop job", name, request, "job_stopped", fmt::format("job={}", name),
                 [this, name] { return RemoveJobIntent(state_.intents, name); }, std::move(done)});
}

void OperatorActions::ReadAudit(std::uint64_t since, std::size_t most,
                                Store::Done<std::vector<AuditEntry>> done) {
  store_.ReadAudit(since, most, std::move(done));
}

}  // namespace espalier::controller
