#pragma once

#include <string>

#include "common/base/result.h"

namespace espalier::engine {

// Becomes that user of the host, with its group and no others, where this process is root's; else,
// and for an empty name, does nothing. Call before there are other threads.
// Errors: kNotFound for a user that does not exist, kPermissionDenied from the system.
Result<void> BecomeUser(const std::string& name);

// Gives up for good all that the engine does not need to do collectives for programs: every
// capability, new privileges, core dumps and being traced, and all system calls but those on a list
// (seccomp_load(3)). A call that is not on it fails with EPERM; one that only an intruder makes
// (to run a program, trace or read another process, change namespaces) ends the process. Memory is
// never writable and executable at once, and sockets are of IP, netlink and the unix domain.
// Call after drivers are loaded and before there are other threads; all threads have it.
// Errors: kPermissionDenied, kUnavailable from the system.
Result<void> EnterSandbox();

}  // namespace espalier::engine
