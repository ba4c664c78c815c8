#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "deploy/cli/doctor/finding.h"

namespace espalier::doctor {

// What switches answered to packets of several source ports whose time to live ends on their way.
struct HopAnswers {
  std::size_t sent = 0;
  std::size_t answered = 0;
  // The addresses that answered each port; several if the port took several ways.
  std::map<std::uint16_t, std::set<IpAddress>> by_port;
  std::size_t repeated = 0;  // ports that were sent several times, and answered as often
};

struct PathTrialOptions {
  int ports = 64;     // tried at each hop
  int repeated = 16;  // of these: ports that are sent `repeats` times more
  int repeats = 3;
  int most_hops = 6;
  int per_second = 100;  // packets, so that switches need not limit their answers
};

// Sends UDP packets to port 4791 of a host in other parts of the fabric, hop by hop, until no
// switch answers. Needs no privilege. The answers are what the switches claim: not proof against
// liars. Takes some two seconds a hop. Errors: kUnsupported for IPv6; those of the sockets.
Result<std::vector<HopAnswers>> TryPaths(const IpAddress& to, const PathTrialOptions& options = {});

// Adds the findings path_answers, path_port and path_spraying. Pure.
void JudgePaths(const std::vector<HopAnswers>& hops, Findings& findings);

}  // namespace espalier::doctor
