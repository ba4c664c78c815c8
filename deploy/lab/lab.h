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

// The node name of the lab's own network namespace, in which a controller runs. It reaches every
// host's management address.
inline constexpr char kControllerNode[] = "controller";

// A running fabric of network namespaces, of two or three tiers, with the kernel's ECMP by source
// port. A holder process keeps it up, and it is found by name.
//
// Thread safety: one thread; Start forks, so call it before the process has more than one.
class Lab {
 public:
  // Starts a lab; leaves nothing behind if that fails. docs/lab.md has measured times.
  // Errors: kInvalidArgument (options), kAlreadyExists (name), kNotFound (ip, tc, nft or FRR
  // missing), kPermissionDenied or kUnsupported (no namespaces on this machine).
  static Result<Lab> Start(const LabOptions& options);
  // Finds a running lab. Errors: kNotFound, kUnavailable if its holder died.
  static Result<Lab> Find(const std::string& name);
  // Ends a lab and every process in it, and returns when they are gone. Removes the remains of a
  // dead lab of that name. Errors: kNotFound.
  static Result<void> Stop(const std::string& name);

  const LabRecord& record() const { return record_; }
  const LabLayout& layout() const { return layout_; }
  const fabric::Topology& topology() const { return topology_; }
  const std::string& topology_file() const { return topology_file_; }

  // Makes the command that runs a program in a node ("h3", "leaf0", "spine1"; "h3/nic1" is h3) or
  // at "controller". The program gets the names of the lab and the node in ESPALIER_LAB and
  // ESPALIER_NODE, and in a host the path of the agent's socket in ESPALIER_AGENT_SOCKET. Valid as
  // long as this object. Errors: kNotFound, naming the nodes.
  Result<Command> MakeCommand(const std::string& node, std::vector<std::string> argv) const;
  // Calls MakeCommand and RunOrFail.
  Result<std::string> Run(const std::string& node, std::vector<std::string> argv,
                          std::string_view input = "") const;

 private:
  Lab(LabRecord record, LabLayout layout, NamespaceContext door, fabric::Topology topology,
      std::string topology_file);

  LabRecord record_;
  LabLayout layout_;
  NamespaceContext door_;
  fabric::Topology topology_;
  std::string topology_file_;
};

}  // namespace espalier::lab
