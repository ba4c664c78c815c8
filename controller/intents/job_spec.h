#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/forest/model/tree_schedule.h"

namespace espalier::controller {

// The specification of a job whose collective runs on a forest, as the operator gave it.
struct JobSpec {
  std::string name;
  std::vector<std::string> ranks;                                  // compute nodes, by rank
  forest::Collective collective = forest::Collective::kAllreduce;  // root: the first rank
  std::uint64_t bytes = 0;                                         // of a typical call; 0: unknown
  bool offload = false;  // the offload service of each host runs it, not the programs
  bool verbs = false;    // over RDMA, else TCP
  // The user whose programs get the rank plans (common/base/users/local_user.h); empty: those of
  // the user who asks first.
  std::string user;
  bool operator==(const JobSpec&) const = default;
};

// A job as it was started.
struct StartedJob {
  JobSpec spec;
  // By rank: the port where its peers connect; empty if an older version started the job.
  std::vector<std::uint16_t> listen_ports;
  bool operator==(const StartedJob&) const = default;
};

}  // namespace espalier::controller
