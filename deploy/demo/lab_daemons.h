#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/result.h"
#include "common/files/json.h"
#include "common/os/command.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// The controller and the agents of a lab: real processes, one agent in each host's namespace, the
// controller in the lab's own, configured as an operator would.
//
// Ends them when destroyed. Thread safety: one thread; the process must have no other.
class LabDaemons {
 public:
  // programs: the folder with espalier-controller and espalier-agent. folder: for configuration,
  // keys, state and the API's socket; must exist, and must be the same for a controller that is to
  // remember; logs go there too. Returns when every agent is connected. controller_fields: more of
  // its configuration.
  // Errors: kNotFound for the programs, kUnavailable where they do not come up in a minute.
  static Result<LabDaemons> Start(const lab::Lab& lab, const std::string& programs,
                                  const std::string& folder,
                                  const std::string& controller_fields = "");

  // The controller's API: "unix:...", for --controller.
  std::string api_address() const { return "unix:" + folder_ + "/controller.sock"; }
  // The folder of Espalier's programs.
  const std::string& programs() const { return programs_; }
  Result<io::JsonValue> Get(const std::string& target) const;
  Result<io::JsonValue> Post(const std::string& target, const std::string& body = "") const;
  // Polls until every decision is acknowledged by its agent (or nobody does within `timeout`).
  Result<void> AwaitAcknowledged(Duration timeout) const;

  // SIGKILL, without a word to anybody.
  void KillController();
  // Starts it (again) and waits for all agents.
  Result<void> StartController();

 private:
  LabDaemons(const lab::Lab& lab, std::string programs, std::string folder)
      : lab_(&lab), programs_(std::move(programs)), folder_(std::move(folder)) {}

  Result<ChildProcess> StartProgram(const std::string& node, const std::string& program,
                                    const std::string& name);
  Result<void> StartAgent(int host);
  Result<void> AwaitAgents(int count) const;
  Result<io::JsonValue> Ask(const std::string& method, const std::string& target,
                            const std::string& body) const;

  const lab::Lab* lab_;
  std::string programs_;
  std::string folder_;
  std::optional<ChildProcess> controller_;
  std::vector<ChildProcess> agents_;
};

}  // namespace espalier::demo
