#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collective/forest/model/plan.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

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

// Its compute nodes. Errors: kInvalidArgument for a name that is no name, fewer than two ranks,
// unknown nodes, nodes that do not compute, one named twice.
Result<std::vector<fabric::NodeId>> ResolveRanks(const fabric::Topology& topology,
                                                 const JobSpec& spec);

// A job as the store keeps it.
struct StoredJob {
  JobSpec spec;
  // By rank: the port that it is reached at; empty where an older version has stored it.
  std::vector<std::uint16_t> listens;
  bool operator==(const StoredJob&) const = default;
};

// All but the name, for Intent::detail; and back. Errors: kInvalidArgument for text of another
// form.
std::string FormatStoredJob(const StoredJob& job);
Result<StoredJob> ParseStoredJob(std::string name, std::string_view text);

}  // namespace espalier::controller
