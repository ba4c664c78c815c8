#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/forest/model/tree_schedule.h"

namespace espalier::controller {

// A job whose collective runs on a forest, as the operator asked for it.
struct JobSpec {
  std::string name;
  std::vector<std::string> ranks;  // compute nodes, in the order of their numbers
  forest::Collective collective = forest::Collective::kAllreduce;  // root: the first rank
  std::uint64_t bytes = 0;                                         // of a typical call; 0: not said
  bool offload = false;  // the agents run it, not the programs
  bool verbs = false;    // over RDMA, else TCP
  // Whose programs get the plans (common/base/local_user.h); empty: not said, whose come first.
  std::string user;
  bool operator==(const JobSpec&) const = default;
};

// A job as it was started.
struct StartedJob {
  JobSpec spec;
  // By rank: the port that it is reached at; empty where an older version has started it.
  std::vector<std::uint16_t> listen_ports;
  bool operator==(const StartedJob&) const = default;
};

}  // namespace espalier::controller
