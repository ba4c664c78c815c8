#pragma once

#include <string>

#include "common/base/result.h"

namespace espalier::demo {

// Lets browsers on this machine reach a controller that listens only on a unix socket, because its
// lab has a separate network. Forwards the connections to a TCP port of 127.0.0.1.
//
// Forks a process for this, which ends with the calling process. While no controller listens, it
// closes connections, so the page says that the controller does not answer, and goes on when a
// controller listens again.
// Returns the page's address, "http://127.0.0.1:9180" (or another port if that is in use).
// Errors: kUnavailable from the system. The process must have one thread.
Result<std::string> StartPageProxy(const std::string& socket_path);

}  // namespace espalier::demo
