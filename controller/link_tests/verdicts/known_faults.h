#pragma once

#include <cstddef>
#include <map>
#include <set>

#include "common/base/time/event_loop.h"
#include "controller/link_tests/trains/train_outcome.h"

namespace espalier::controller {

// What is known to be faulty, or was. Trains over these links until then, and from or to these
// hosts, are left out of further verdicts: what they show is explained.
struct KnownFaults {
  std::map<std::size_t, TimePoint> links;  // by DirectedLink::Index
  std::set<AgentId> hosts;

  bool Explains(const TrainOutcome& outcome) const {
    bool explains = hosts.contains(outcome.sender) || hosts.contains(outcome.receiver);
    if (links.empty()) return explains;
    outcome.ForEachLink([&](fabric::DirectedLink link) {
      const auto known = links.find(link.Index());
      explains = explains || (known != links.end() && outcome.at <= known->second);
    });
    return explains;
  }
};

}  // namespace espalier::controller
