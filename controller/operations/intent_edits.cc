#include "controller/operations/intent_edits.h"

#include <fmt/format.h>

#include <utility>

#include "controller/intents/intent_text.h"
#include "controller/intents/maintenance.h"
#include "controller/settings/policies.h"

namespace espalier::controller {

using fabric::LinkState;

namespace {

bool IsDrain(IntentAction action) {
  return action == IntentAction::kDrain || action == IntentAction::kUndrain;
}

// Accepts `until` only in the future, and only for actions that can have an end.
Result<void> CheckEnd(const OperatorRequest& request, bool can_end, std::string_view verb,
                      WallTime now) {
  if (!request.until) return {};
  if (!can_end) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} does not take an end time (only fail, drain and set do)", verb));
  }
  if (*request.until > now) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("the end time {} is in the past (the controller's clock says {})",
                          FormatWallTime(*request.until), FormatWallTime(now)));
}

// The intent after an action that asks for it again: what the request gives replaces what was.
Intent Renewed(const Intent& present, const OperatorRequest& request) {
  Intent renewed = present;
  if (request.until || request.never_ends) renewed.until = request.until;
  if (!request.reason.empty()) renewed.reason = request.reason;
  return renewed;
}

// Adds, renews or removes the intent. Errors: kAlreadyExists where that changes nothing.
Result<void> Change(IntentById& intents, const std::string& id, bool add,
                    const OperatorRequest& request, WallTime now, std::string_view kind,
                    std::string_view already) {
  const auto present = intents.find(id);
  if (add && present != intents.end()) {
    const Intent before = std::exchange(present->second, Renewed(present->second, request));
    if (present->second != before) return {};
  } else if (add) {
    intents[id] = {request.reason, request.actor, now, request.until};
    return {};
  } else if (intents.erase(id) > 0) {
    return {};
  }
  return Fail(ErrorCode::kAlreadyExists, fmt::format("{} {} {}", kind, id, already));
}

// Adds to an error the maintenance windows that keep a link or node drained.
Error InMaintenance(Error error, const Intents& intents, std::string_view kind,
                    const std::string& id) {
  if (!IsInMaintenance(intents.maintenance, kind, id)) return error;
  const std::string windows = WindowsOf(intents.maintenance, kind, id);
  error.message += fmt::format(", but in maintenance (`espalier maintenance cancel {}`)", windows);
  return error;
}

// Sets a weight or policy to this value, or removes it where there is no value.
Result<Intents> WithSetting(const Intents& intents, IntentById Intents::*settings,
                            const std::string& id, const std::optional<IntentValue>& value,
                            const OperatorRequest& request, WallTime now) {
  if (Result<void> right = CheckEnd(request, value.has_value(), "a reset", now); !right) {
    return Propagate(right);
  }
  Intents changed = intents;
  IntentById& present = changed.*settings;
  const auto found = present.find(id);
  if (!value) {
    if (found == present.end()) {
      return Fail(ErrorCode::kAlreadyExists, fmt::format("no weight or policy is set for {}", id));
    }
    present.erase(found);
    return changed;
  }
  if (found == present.end()) {
    present[id] = Intent{request.reason, request.actor, now, request.until, *value};
    return changed;
  }
  Intent renewed = Renewed(found->second, request);
  if (renewed.value != *value) {
    renewed.value = *value;
    renewed.actor = request.actor;
    renewed.since = now;
  }
  if (renewed == found->second) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("{} is already set to {}", id, FormatIntentValue(*value)));
  }
  found->second = std::move(renewed);
  return changed;
}

}  // namespace

ActionWords WordsFor(IntentAction action) {
  switch (action) {
    case IntentAction::kFail:
      return {true, "fail", "failed", "is already failed"};
    case IntentAction::kRestore:
      return {false, "restore", "restored", "is not failed"};
    case IntentAction::kDrain:
      return {true, "drain", "drained", "is already drained"};
    case IntentAction::kUndrain:
      return {false, "undrain", "undrained", "is not drained"};
  }
  return {};
}

Result<Intents> ChangeLinkIntent(const Intents& intents, const fabric::Topology& topology,
                                 std::span<const LinkState> in_file, const std::string& link,
                                 IntentAction action, const OperatorRequest& request,
                                 WallTime now) {
  const auto id = topology.FindLink(link);
  if (!id) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no link \"{}\" (`espalier links` lists them)", link));
  }
  const ActionWords words = WordsFor(action);
  if (Result<void> right = CheckEnd(request, words.adds, words.verb, now); !right) {
    return Propagate(right);
  }
  Intents changed = intents;
  const LinkState meant = IsDrain(action) ? LinkState::kDrained : LinkState::kDown;
  Result<void> done =
      in_file[id->Index()] == meant
          ? Change(changed.restored_links, link, !words.adds, request, now, "link", words.already)
          : Change(IsDrain(action) ? changed.drained_links : changed.failed_links, link, words.adds,
                   request, now, "link", words.already);
  if (!done) return tl::unexpected<Error>(InMaintenance(done.error(), intents, "link", link));
  return changed;
}

Result<Intents> ChangeNodeIntent(const Intents& intents, const fabric::Topology& topology,
                                 const std::string& node, IntentAction action,
                                 const OperatorRequest& request, WallTime now) {
  if (!topology.FindNode(node)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no node \"{}\" (`espalier nodes` lists them)", node));
  }
  const ActionWords words = WordsFor(action);
  if (Result<void> right = CheckEnd(request, words.adds, words.verb, now); !right) {
    return Propagate(right);
  }
  Intents changed = intents;
  IntentById& nodes = IsDrain(action) ? changed.drained_nodes : changed.failed_nodes;
  Result<void> done = Change(nodes, node, words.adds, request, now, "node", words.already);
  if (!done) return tl::unexpected<Error>(InMaintenance(done.error(), intents, "node", node));
  return changed;
}

Result<Intents> ChangeWeightIntent(const Intents& intents, const std::string& job,
                                   std::uint64_t weight, const OperatorRequest& request,
                                   WallTime now) {
  if (job.empty())
    return Fail(ErrorCode::kInvalidArgument,
                "the job's name is empty (name the job whose weight is to change)");
  if (weight < 1 || weight > kMaxWeight) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("weight {} is out of range (choose 1 to {})", weight, kMaxWeight));
  }
  std::optional<IntentValue> value;
  if (weight > 1) value = JobWeight{static_cast<std::uint32_t>(weight)};
  return WithSetting(intents, &Intents::weights, job, value, request, now);
}

Result<Intents> ChangePolicyIntent(const Intents& intents, const std::string& name,
                                   const std::optional<std::string>& text,
                                   const OperatorRequest& request, WallTime now) {
  Result<PolicyValue> parsed = ParsePolicy(name, text.value_or(""));
  if (!parsed && (text || parsed.error().code == ErrorCode::kNotFound)) return Propagate(parsed);
  std::optional<IntentValue> value;
  if (text) value = *parsed;
  return WithSetting(intents, &Intents::policies, name, value, request, now);
}

Result<Intents> AddJobIntent(const Intents& intents, const StartedJob& job,
                             const OperatorRequest& request, WallTime now) {
  Intents changed = intents;
  changed.jobs[job.spec.name] = {request.reason, request.actor, now, std::nullopt, job};
  return changed;
}

Result<Intents> RemoveJobIntent(const Intents& intents, const std::string& job) {
  Intents changed = intents;
  if (changed.jobs.erase(job) > 0) return changed;
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no job \"{}\" (`espalier job list` lists them)", job));
}

bool DropEnded(Intents& intents, const std::function<bool(const Intent&)>& has_ended) {
  std::size_t dropped = 0;
  for (IntentById* members : {&intents.failed_links, &intents.failed_nodes, &intents.drained_links,
                              &intents.drained_nodes, &intents.restored_links, &intents.weights,
                              &intents.policies, &intents.steering, &intents.maintenance}) {
    dropped +=
        std::erase_if(*members, [&](const auto& member) { return has_ended(member.second); });
  }
  return dropped > 0;
}

}  // namespace espalier::controller
