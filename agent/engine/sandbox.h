#pragma once

#include <string>

#include "common/base/result.h"

namespace espalier::engine {

// Switches a process of root to this user, with the user's group and no others. Does nothing for
// other processes and for an empty name. Call it before there are other threads.
// Errors: kNotFound for a user that does not exist, kPermissionDenied from the system.
Result<void> BecomeUser(const std::string& name);

// Gives up, irrevocably, everything that the offload service does not need: all capabilities, new
// privileges, core dumps, being traced, and all system calls except those on a list
// (seccomp_load(3)). A call that is not on the list fails with EPERM. A call that only an intruder
// makes (to run a program, trace or read another process, change namespaces) ends the process.
// No more code can be mapped, and sockets are IP, netlink or unix sockets. Call it after drivers
// are loaded and before there are other threads; it holds for all threads. Errors:
// kPermissionDenied, kUnavailable from the system.
Result<void> EnterSandbox();

}  // namespace espalier::engine
