#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/paths.h"
#include "controller/controller.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The part of a sender's bytes that this path should get beside others of the pair: the rate that
// one more flow would have on its busiest link, relative to the fabric's most frequent rate. 0: it
// must not be used, as a link of it is down or drained. O(hops).
double WeightOf(const State& state, const fabric::Path& path);

// What one NIC sends to another by spreading packets over all paths (`espalier paths export`).
struct SprayedTraffic {
  std::string source;  // NIC, or host with one NIC
  std::string destination;
  double bps = 0;
};

// What this traffic puts on links, if senders use the weights of the present: a link's load is the
// sum over the paths that use it, and its rate at most. Links that carry none are left out.
// Errors: kNotFound for a name that is no NIC, kInvalidArgument for a host with several and for a
// rate that is negative or not finite. O(nodes + pairs of leaves x paths x hops).
Result<std::vector<LinkLoadReport::Entry>> SpreadOverPaths(const State& state,
                                                           std::span<const SprayedTraffic> traffic);

}  // namespace espalier::controller
