#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/job_key.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::agent {

// What a rank has to know to take part in its job's collectives.
struct LocalRankPlan {
  std::uint64_t version = 0;
  int rank = 0;
  int ranks = 0;
  IpAddress address;
  std::uint16_t listen_port = 0;
  IpAddress first_address;  // of rank 0
  std::uint16_t first_listen_port = 0;
  bool offload = false;
  bool urgent = false;               // the plan before no longer works
  bool verbs = false;                // over RDMA, else TCP
  std::optional<JobKey> job_key;     // none: from an older controller
  std::vector<IpAddress> addresses;  // by rank, or none
  struct Port {
    int peer = 0;
    int channel = 0;
    std::uint16_t port = 0;
  };
  std::vector<Port> ports;
  std::string program;
};

// A program's line to its agent, for the plans of one rank. For libraries in programs.
// Thread safety: one thread for Wait, one for Report.
class RankPlanClient {
 public:
  // socket: of the local API; "": $ESPALIER_AGENT_SOCKET, else the default. `user`: for whose
  // program, where it is not the caller's own (for the host's engine).
  // Errors: kUnavailable where no agent answers, kInvalidArgument for a name that is too long.
  static Result<std::unique_ptr<RankPlanClient>> Connect(const std::string& socket,
                                                         const std::string& job, int rank,
                                                         std::optional<uid_t> user = {});
  // The next plan; none past the deadline. Errors: kUnavailable where the agent has gone or turns
  // us away, or the job has ended; kPermissionDenied where the rank is another user's;
  // kFailedPrecondition for an agent of another version.
  Result<std::optional<LocalRankPlan>> Wait(std::chrono::milliseconds patience);
  // What became of a collective (by its number among program::CollectiveKind); lost where the
  // agent is behind or gone.
  void Report(int collective, std::uint64_t sequence, std::uint64_t bytes,
              std::chrono::microseconds duration, const std::string& error);
  // Ends a Wait in another thread.
  void Close();

 private:
  explicit RankPlanClient(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

// The socket of the local API, as Connect takes it.
std::string AgentSocket(const std::string& socket);

// The plan in such a file. Errors: kInvalidArgument for bytes that are none.
Result<LocalRankPlan> ParsePlanFile(std::string_view bytes);

}  // namespace espalier::agent
