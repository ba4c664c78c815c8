#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "deploy/simulation/scenario.h"

namespace espalier::simulation {

// Reads the actions of a scenario, in the order of their times, and follows which processes run.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)". The topology must outlive it.
class ActionReader {
 public:
  ActionReader(std::string_view file_name, const fabric::Topology& topology,
               const Scenario& scenario);

  // Actions must not be earlier than those before them.
  Result<Action> Read(const io::JsonValue& item);

 private:
  void ReadTarget(io::JsonFields& fields, Action& action);
  void ReadHost(io::JsonFields& fields, Action& action, bool is_required);
  void CheckProcesses(io::JsonFields& fields, const Action& action);
  void ReadHash(io::JsonFields& fields, Action& action);
  const fabric::Node* FindSwitch(const std::string& id) const;

  const std::string file_;
  const fabric::Topology& topology_;
  const Scenario& scenario_;  // its mode, duration, fabric and hash
  Duration last_{};
  bool has_controller_;
  std::set<int> agents_down_;
};

// Reads faults of messages: the members delay_us, jitter_us, loss_percent, duplication_percent.
sim::LinkFaults ReadFaults(io::JsonFields& fields);

}  // namespace espalier::simulation
