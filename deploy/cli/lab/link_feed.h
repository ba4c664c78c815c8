#pragma once

#include <string>

#include "deploy/lab/lab.h"

namespace espalier::lab {

struct LinkFeedOptions {
  std::string name = "lab";
  double load_interval = 0;  // seconds; 0: loads are not measured
};

// Prints the lines that `espalier report links` reads: each change of a link as soon as a switch
// reports it, and the loads of all links at their interval. Returns only on an error, as when the
// lab ends. The process must have one thread, and moves permanently into the lab's namespaces.
Result<void> PrintLinkFeed(const LinkFeedOptions& options);

}  // namespace espalier::lab
