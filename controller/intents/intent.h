#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "common/base/wall_time.h"
#include "controller/intents/job_spec.h"
#include "controller/intents/policy.h"

namespace espalier::controller {

// How many times as fast as one of weight 1 a job is to be.
struct JobWeight {
  std::uint32_t value = 1;
  bool operator==(const JobWeight&) const = default;
};

// What the store has and this program cannot read, as another version wrote it. It is kept, and
// has no effect.
struct UnreadableValue {
  std::string text;
  bool operator==(const UnreadableValue&) const = default;
};

// What an intent says beyond its kind and whom it is about: nothing of links and nodes, else what
// the job is, its weight, or what the policy is set to.
using IntentValue =
    std::variant<std::monostate, StartedJob, JobWeight, PolicyValue, UnreadableValue>;

// Why something of the fabric is as an operator wants it, who said so, and for how long.
struct Intent {
  std::string reason;
  std::string actor;
  WallTime since;
  std::optional<WallTime> until;  // it ends by itself then
  IntentValue value{};
  bool operator==(const Intent&) const = default;
};
using IntentById = std::map<std::string, Intent>;  // by the topology's ids, or by names

// All that operators have said about the fabric and that must survive a restart.
struct Intents {
  IntentById failed_links;
  IntentById failed_nodes;
  IntentById drained_links;
  IntentById drained_nodes;
  IntentById restored_links;  // though the topology file says otherwise
  IntentById jobs;            // whose collectives run on forests, by name
  IntentById weights;         // of jobs, by name
  IntentById policies;        // by name
  bool operator==(const Intents&) const = default;
};

}  // namespace espalier::controller
