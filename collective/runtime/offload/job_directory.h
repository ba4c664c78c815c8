#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "collective/runtime/calls/collective_plan.h"
#include "collective/runtime/group/communicator.h"
#include "common/base/result.h"

namespace espalier::runtime {

// The rank of a job that a program claims to be. `number` tells apart the groups that a job forms
// one after another, as it does after each failure of a path.
struct JobRank {
  std::string job;
  int rank = 0;
  std::uint32_t number = 0;
};

// What the offload service needs to join a group for one of its ranks.
struct GroupJoinInfo {
  std::string store;  // rendezvous store: "tcp://ADDRESS:PORT"
  std::string name;   // of the group
  int size = 1;
  CommunicatorOptions options;  // transport, addresses, job key
};

// The program that claims to be a rank, as the kernel identified it when it connected.
struct JobProgram {
  uid_t user = 0;
  pid_t process = 0;
};

// Tells the addresses of the connections of one rank's plans.
// Thread safety: one thread.
class PlanDirectory {
 public:
  virtual ~PlanDirectory() = default;
  // Finds those of the plan of this generation, one of the last few that the rank has had. Waits at
  // most `patience` for it. Errors: kUnavailable if there is no such plan.
  virtual Result<PlanAddresses> AddressesOf(std::uint64_t generation,
                                            std::chrono::milliseconds patience) = 0;
};

// What the offload service needs to know of a job's rank: how to join its groups, and its plans.
struct JobPlace {
  GroupJoinInfo join;
  std::unique_ptr<PlanDirectory> plans;  // null: its connections use the addresses of their ranks
};

// Tells the offload service how to join the groups of jobs, because it does not trust programs to
// tell. On a host this is the agent, which knows it from the controller.
// Thread safety: any thread.
class JobDirectory {
 public:
  virtual ~JobDirectory() = default;
  // Finds how to join as that rank. The rank must be on this host and its job must use the offload
  // service. Waits at most `patience`.
  // Errors: kPermissionDenied if the rank belongs to another user or container; kNotFound if the
  // job has no such rank here or does not use the offload service; kUnavailable if the agent cannot
  // be asked.
  virtual Result<JobPlace> Find(const JobRank& rank, const JobProgram& program,
                                std::chrono::milliseconds patience) = 0;
};

}  // namespace espalier::runtime
