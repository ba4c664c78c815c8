#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "common/os/command.h"
#include "deploy/lab/lab_layout.h"
#include "deploy/lab/lab_registry.h"
#include "deploy/lab/namespaces.h"

namespace espalier::lab {

// The node name of the lab's own network namespace, which reaches every host's management
// address and in which a controller runs.
inline constexpr char kControllerNode[] = "controller";

// A leaf-spine fabric of network namespaces that is up: kernel ECMP by source port, kept by a
// holder process, found by name.
//
// Thread safety: one thread; Start forks, so call it before the process has more than one.
class Lab {
 public:
  // Complexity: measured in docs/lab.md. Whatever fails, nothing stays behind.
  // Errors: kInvalidArgument (options), kAlreadyExists (name), kNotFound (ip, tc or nft missing),
  // kPermissionDenied or kUnsupported (no namespaces on this machine).
  static Result<Lab> Start(const LabOptions& options);
  // Errors: kNotFound, kUnavailable if its holder died.
  static Result<Lab> Find(const std::string& name);
  // Ends a lab and every process in it; returns when they are gone. What a dead lab of that name
  // left is removed. Errors: kNotFound.
  static Result<void> Stop(const std::string& name);

  const LabRecord& record() const { return record_; }
  const LabLayout& plan() const { return plan_; }
  const fabric::Topology& topology() const { return topology_; }
  const std::string& topology_file() const { return topology_file_; }

  // A program in a node ("h3", "leaf0", "spine1") or at "controller". It finds the lab's and its
  // node's name in ESPALIER_LAB and ESPALIER_NODE, and in a host the path for the agent's socket
  // in ESPALIER_AGENT_SOCKET. Valid while this lab is. Errors: kNotFound, naming the nodes.
  Result<Command> MakeCommand(const std::string& node, std::vector<std::string> argv) const;
  // MakeCommand and RunOrFail.
  Result<std::string> Run(const std::string& node, std::vector<std::string> argv,
                          std::string_view input = "") const;

 private:
  Lab(LabRecord record, LabLayout plan, NamespaceContext door, fabric::Topology topology,
      std::string topology_file);

  LabRecord record_;
  LabLayout plan_;
  NamespaceContext door_;
  fabric::Topology topology_;
  std::string topology_file_;
};

}  // namespace espalier::lab
