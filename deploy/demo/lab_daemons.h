#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "common/files/json.h"
#include "common/os/command.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// Runs the controller and the agents of a lab as real processes: one agent in each host's namespace
// and the controller in the lab's own, configured as an operator would.
//
// Its destructor ends them. Thread safety: one thread; the process must have no other.
class LabDaemons {
 public:
  // Starts them and returns when every agent is connected. `programs` is the folder with
  // espalier-controller and espalier-agent. `folder` must exist; it gets the configuration, keys,
  // state, logs and the API's socket. A controller restores its state from the same folder.
  // `controller_fields` is added to the controller's configuration.
  // Errors: kNotFound for the programs, kUnavailable if they do not come up within a minute.
  static Result<LabDaemons> Start(const lab::Lab& lab, const std::string& programs,
                                  const std::string& folder,
                                  const std::string& controller_fields = "");
  // The same, but they run on until the lab is stopped. Returns the address of the controller's
  // API.
  static Result<std::string> StartAndLeave(const lab::Lab& lab, const std::string& programs,
                                           const std::string& folder);

  // The address of the controller's API, "unix:...", for --controller.
  std::string api_address() const { return "unix:" + folder_ + "/controller.sock"; }
  // The folder of Espalier's programs.
  const std::string& programs() const { return programs_; }
  Result<io::JsonValue> Get(const std::string& target) const;
  Result<io::JsonValue> Post(const std::string& target, const std::string& body = "") const;
  // Polls until the controller has recorded an event of this kind, about a link if one is named.
  // Errors: kUnavailable after a minute.
  Result<void> AwaitEvent(const std::string& kind, const std::string& link = "") const;
  // Has the controller take over another topology of the lab, as `espalier topology apply` does,
  // and returns when it has started again and all agents are connected. Errors: those of the
  // controller, kUnavailable after a minute.
  Result<void> ApplyTopology(const fabric::TopologySpec& topology) const;
  // Polls until the agents have acknowledged every decision. Errors: kUnavailable after `timeout`.
  Result<void> AwaitAcknowledged(Duration timeout) const;

  // Notices processes of hosts that have ended, and starts them again 15 s later, as a service
  // manager would. Returns what has happened since the last call, in sentences for people.
  // Errors: those of starting a process.
  Result<std::vector<std::string>> LookAfterHosts();

  // Kills the controller with SIGKILL.
  void KillController();
  // Starts the controller and waits for all agents.
  Result<void> StartController();

 private:
  // An agent or an offload service.
  struct HostProcess {
    std::string host;
    std::string program;
    std::string name;  // of its files
    std::optional<ChildProcess> process;
    std::chrono::steady_clock::time_point restart;  // while it does not run
  };

  LabDaemons(const lab::Lab& lab, std::string programs, std::string folder)
      : lab_(&lab), programs_(std::move(programs)), folder_(std::move(folder)) {}

  Result<void> StartAll(const std::string& controller_fields);
  // None if the program is left running.
  Result<std::optional<ChildProcess>> StartProgram(const std::string& node,
                                                   const std::string& program,
                                                   const std::string& name);
  Result<void> StartAgent(int host);
  Result<void> AwaitAgents(int count) const;
  Result<io::JsonValue> Ask(const std::string& method, const std::string& target,
                            const std::string& body) const;

  const lab::Lab* lab_;
  std::string programs_;
  std::string folder_;
  bool leaves_ = false;  // the programs running
  std::optional<ChildProcess> controller_;
  std::vector<HostProcess> host_processes_;
};

}  // namespace espalier::demo
