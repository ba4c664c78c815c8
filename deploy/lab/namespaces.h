#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/os/command.h"

namespace espalier::lab {

// The folder where the namespaces of a lab's nodes are bound, inside the lab's mount namespace.
inline constexpr char kNetnsFolder[] = "/run/netns";
// The file with the lab's token, inside the lab's mount namespace, by which its processes are
// identified.
inline constexpr char kTokenFile[] = "/run/espalier-lab";

// The namespaces of a lab's holder process, which other processes can enter.
class NamespaceContext : public ExecutionContext {
 public:
  // Errors: kUnavailable if the holder is gone; kPermissionDenied if it belongs to another user.
  static Result<NamespaceContext> Open(pid_t holder);

  // Moves the calling process, which must have one thread, into the user and mount namespaces of
  // the lab and the network namespace of `node` (nullptr: the holder's own). Keeps the working
  // folder.
  int Enter(const char* node) const noexcept override;

 private:
  NamespaceContext() = default;

  UniqueFd user_;  // not open if the holder is in the caller's user namespace
  UniqueFd mount_;
  UniqueFd net_;
};

// Creates a network namespace named `node` in kNetnsFolder and moves the caller into it.
Result<void> CreateNetworkNamespace(const std::string& node);
// Writes /proc/sys/<key> of the network namespace that the caller is in.
Result<void> WriteSysctl(const std::string& key, const std::string& value);

// Sends a signal to every process of the lab that carries this token, except the caller and
// `spare`. Returns the number of processes.
int SignalProcessesOfLab(const std::string& token, int signal, pid_t spare);

}  // namespace espalier::lab
