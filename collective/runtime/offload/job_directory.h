#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "collective/runtime/group/communicator.h"
#include "common/base/result.h"

namespace espalier::runtime {

// Which rank of which job a program says that it is. `number` tells apart the groups that a job
// forms one after another, as it does after each failure of a path.
struct JobRank {
  std::string job;
  int rank = 0;
  std::uint32_t number = 0;
};

// What an engine needs to know to join a job's group for one of its ranks.
struct GroupJoinInfo {
  std::string store;  // where the ranks meet: "tcp://ADDRESS:PORT"
  std::string name;   // of the group
  int size = 1;
  CommunicatorOptions options;  // the medium, the addresses, the job's key
};

// Tells an engine of jobs, in place of programs, which it does not believe: on a host that is the
// agent, who has it from the controller.
// Thread safety: any thread.
class JobDirectory {
 public:
  virtual ~JobDirectory() = default;
  // The place of that rank, where it is on this host and its job is done by the engine, for a
  // program of that user. Waits for at most `patience`.
  // Errors: kPermissionDenied where the rank is another user's; kNotFound where the job has no such
  // rank here, or does without the engine; kUnavailable where there is nobody to ask.
  virtual Result<GroupJoinInfo> Find(const JobRank& rank, uid_t user,
                                     std::chrono::milliseconds patience) = 0;
};

}  // namespace espalier::runtime
