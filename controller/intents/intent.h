#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "common/base/time/wall_time.h"
#include "controller/intents/job_spec.h"
#include "controller/intents/policy.h"

namespace espalier::controller {

// How many times as fast as a job of weight 1 a job should be.
struct JobWeight {
  std::uint32_t value = 1;
  bool operator==(const JobWeight&) const = default;
};

// Whether operators let Espalier steer what the intent is for: 0 (off), 100 (on), or, of the
// intent for a percentage of hosts, that percentage.
struct SteeringSetting {
  std::uint32_t percent = 100;
  bool operator==(const SteeringSetting&) const = default;
};

// A maintenance window: from its beginning to the end of its intent, a link or node is drained.
struct MaintenanceWindow {
  std::string kind;  // "link" or "node"
  std::string id;    // of the topology
  WallTime from;
  bool has_begun = false;
  bool is_forced = false;  // it begins even if that cuts off flows
  bool operator==(const MaintenanceWindow&) const = default;
};

// A value in the store that this program cannot read, because another version wrote it. It is kept
// and has no effect.
struct UnreadableValue {
  std::string text;
  bool operator==(const UnreadableValue&) const = default;
};

// The value of an intent, beyond its kind and its object: nothing for links and nodes, else the
// job's specification, its weight, the value of the policy, whether to steer, or a
// window.
using IntentValue = std::variant<std::monostate, StartedJob, JobWeight, PolicyValue,
                                 SteeringSetting, MaintenanceWindow, UnreadableValue>;

// What an operator wants of a link, node, job, policy or of steering: why, who asked for it, and
// for how long.
struct Intent {
  std::string reason;
  std::string actor;
  WallTime since;
  std::optional<WallTime> until;  // when it ends by itself; none: it has no end
  IntentValue value{};
  bool operator==(const Intent&) const = default;
};
using IntentById = std::map<std::string, Intent>;  // by the topology's ids, or by names

// All intents that are in force; they survive a restart.
struct Intents {
  IntentById failed_links;
  IntentById failed_nodes;
  IntentById drained_links;
  IntentById drained_nodes;
  IntentById restored_links;  // up, although the topology file has them failed or drained
  IntentById jobs;            // with collectives on forests, by name
  IntentById weights;         // of jobs, by name
  IntentById policies;        // by name
  IntentById steering;        // by the keys of controller/intents/steering.h
  IntentById maintenance;     // windows, by "m1", "m2", ...
  bool operator==(const Intents&) const = default;
};

}  // namespace espalier::controller
