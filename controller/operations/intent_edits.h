#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/wall_time.h"
#include "common/fabric/topology.h"
#include "controller/intents/intent.h"
#include "controller/operations/action.h"

namespace espalier::controller {

// What operators' actions make of the set of intents: pure functions from the present set to the
// next one. Errors say why there is none: kNotFound (no such link, node, job or policy),
// kAlreadyExists (it is so already), kInvalidArgument (`until` is past, or makes no sense there; a
// value that cannot be).

enum class IntentAction { kFail, kRestore, kDrain, kUndrain };

// How an action is called in commands, events and the audit log.
struct ActionWords {
  bool adds = false;  // an intent, or takes it back
  std::string_view verb;
  std::string_view past;
  std::string_view already;
};
ActionWords WordsFor(IntentAction action);

// `in_file`: by link, the states of the topology file. What that has as failed or drained is so
// without an intent, and is taken back by one.
Result<Intents> ChangeLinkIntent(const Intents& intents, const fabric::Topology& topology,
                                 std::span<const fabric::LinkState> in_file,
                                 const std::string& link, IntentAction action,
                                 const OperatorRequest& request, WallTime now);
Result<Intents> ChangeNodeIntent(const Intents& intents, const fabric::Topology& topology,
                                 const std::string& node, IntentAction action,
                                 const OperatorRequest& request, WallTime now);
// A weight of 1 is none: all jobs have it without an intent.
Result<Intents> ChangeWeightIntent(const Intents& intents, const std::string& job,
                                   std::uint64_t weight, const OperatorRequest& request,
                                   WallTime now);
// No text: the configuration holds again. A name that is no policy, or a text that it does not
// take, is refused.
Result<Intents> ChangePolicyIntent(const Intents& intents, const std::string& name,
                                   const std::optional<std::string>& text,
                                   const OperatorRequest& request, WallTime now);
Result<Intents> AddJobIntent(const Intents& intents, const StartedJob& job,
                             const OperatorRequest& request, WallTime now);
Result<Intents> RemoveJobIntent(const Intents& intents, const std::string& job);
// Takes out what held until a time that is over; true if there was any.
bool DropEnded(Intents& intents, const std::function<bool(const Intent&)>& has_ended);

}  // namespace espalier::controller
