#pragma once

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "common/fabric/topology.h"
#include "controller/intents/intent.h"
#include "controller/intents/steering.h"
#include "controller/operations/action.h"

namespace espalier::controller {

// Returns the intents after steering is switched on or off for a scope.
//   no scope  the switch, which goes before everything else; what else is set holds again later
//   percent   this percentage of the hosts is on, or off and the others on. `on` also takes back
//             the switch; at 100 % no host needs to be on by name
//   hosts,    each of them. Without a percentage, `on` only takes back what is off
//   jobs
// What holds already keeps its author and time, and takes another reason or end.
//
// Errors: kInvalidArgument (a percentage beside hosts or jobs, or above 100; an end in the past, or
// for something that has none: only `off` without a percentage has one), kNotFound (a host that the
// topology does not have), kAlreadyExists (nothing would change), kFailedPrecondition (hosts or
// jobs are to be on or off, but the switch is off, so that it would have no effect).
Result<Intents> ChangeSteeringIntent(const Intents& intents, const fabric::Topology& topology,
                                     const SteeringScope& scope, bool on,
                                     const OperatorRequest& request, WallTime now);

}  // namespace espalier::controller
