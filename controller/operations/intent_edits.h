#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "common/fabric/topology.h"
#include "controller/intents/intent.h"
#include "controller/operations/action.h"

namespace espalier::controller {

// Pure functions that compute the next set of intents from the present one and an operator's
// action. Errors: kNotFound (unknown link, node, job or policy), kAlreadyExists (the action would
// change nothing), kInvalidArgument (`until` is in the past or does not apply; a value out of
// range).

// An action that asks for what holds already, with another reason or end, changes just these. A new
// weight or value keeps the reason and the end unless others are given.

enum class IntentAction { kFail, kRestore, kDrain, kUndrain };

// The words for an action in commands, events and the audit log.
struct ActionWords {
  bool adds = false;  // the action adds an intent; false: it removes one
  std::string_view verb;
  std::string_view past;
  std::string_view already;
};
ActionWords WordsFor(IntentAction action);

// `in_file`: by link, the states in the topology file. A link that the file has as failed or
// drained needs no intent to be so; an intent restores it.
Result<Intents> ChangeLinkIntent(const Intents& intents, const fabric::Topology& topology,
                                 std::span<const fabric::LinkState> in_file,
                                 const std::string& link, IntentAction action,
                                 const OperatorRequest& request, WallTime now);
Result<Intents> ChangeNodeIntent(const Intents& intents, const fabric::Topology& topology,
                                 const std::string& node, IntentAction action,
                                 const OperatorRequest& request, WallTime now);
// A weight of 1 removes the intent: it is what jobs without an intent have.
Result<Intents> ChangeWeightIntent(const Intents& intents, const std::string& job,
                                   std::uint64_t weight, const OperatorRequest& request,
                                   WallTime now);
// Without a text the configured value applies again. Errors: also those of ParsePolicy.
Result<Intents> ChangePolicyIntent(const Intents& intents, const std::string& name,
                                   const std::optional<std::string>& text,
                                   const OperatorRequest& request, WallTime now);
Result<Intents> AddJobIntent(const Intents& intents, const StartedJob& job,
                             const OperatorRequest& request, WallTime now);
Result<Intents> RemoveJobIntent(const Intents& intents, const std::string& job);
// Removes the intents that have ended; true if there were any.
bool DropEnded(Intents& intents, const std::function<bool(const Intent&)>& has_ended);

}  // namespace espalier::controller
