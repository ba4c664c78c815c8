#pragma once

#include <string>

#include "common/base/result.h"

namespace espalier::demo {

// Lets browsers on this machine reach a controller that listens on a unix socket alone (those of a
// lab have a network of their own): passes on what comes to a TCP port of 127.0.0.1.
//
// Forks a process of its own for that, which ends when the controller does.
// Returns the page's address, "http://127.0.0.1:9180" (or another port where that is taken).
// Errors: kUnavailable from the system. The process must have one thread.
Result<std::string> StartPageProxy(const std::string& socket_path);

}  // namespace espalier::demo
