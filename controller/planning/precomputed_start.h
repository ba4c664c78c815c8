#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "controller/prediction/cycle_learner.h"
#include "controller/prediction/start_assignment.h"

namespace espalier::controller {

// The paths of a set of flows that will start, computed before it does.
struct PrecomputedStart {
  FlowSetId set;
  std::int64_t version = 0;       // of the topology
  std::uint64_t fingerprint = 0;  // of the paths for which it was made
  std::uint64_t changes = 0;      // FlowPaths::changes; compared only if it has moves
  bool assumes_ends = false;      // made for the paths that remain after forecast departures
  bool is_used_up = false;        // all its flows have arrived
  bool lacks_ports = true;
  std::uint64_t made = 0;         // serial number
  std::uint32_t port_rounds = 0;  // how often ports were requested
  // First index into decided.paths, and count.
  std::unordered_map<MemberKey, std::pair<std::uint32_t, std::uint32_t>> subflows;
  StartAssignment decided;
};

}  // namespace espalier::controller
