#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/base/users/job_key.h"

namespace espalier::agent {

// A rank plan as the program reads it: what a rank needs to take part in its job's collectives.
struct LocalRankPlan {
  std::uint64_t version = 0;
  int rank = 0;
  int ranks = 0;
  IpAddress address;
  std::uint16_t listen_port = 0;
  IpAddress first_address;  // the address of rank 0
  std::uint16_t first_listen_port = 0;
  bool offload = false;
  bool urgent = false;               // the previous rank plan has stopped working
  bool verbs = false;                // true: over RDMA; false: over TCP
  std::optional<JobKey> job_key;     // none: the controller is an older one
  std::vector<IpAddress> addresses;  // by rank; empty: unknown
  struct Port {
    int peer = 0;
    int channel = 0;
    std::uint16_t port = 0;  // 0: any
    // The addresses at this rank and at the peer; none: those of the ranks.
    std::optional<IpAddress> source;
    std::optional<IpAddress> destination;
  };
  std::vector<Port> ports;
  std::vector<IpAddress> listen_addresses;  // further ones, where peers connect
  std::string program;
};

// A program's connection to its agent for the rank plans of one rank. For libraries in programs.
// Thread safety: one thread for Wait, one for Report.
class RankPlanClient {
 public:
  // A program for which the offload service asks, as the kernel told the service.
  struct Program {
    uid_t user = 0;
    pid_t process = 0;
  };

  // `socket`: that of the local API; "": $ESPALIER_AGENT_SOCKET, else the default. `program`: which
  // one asks, if it is not the caller.
  // Errors: kUnavailable if no agent answers, kInvalidArgument for a name that is too long.
  static Result<std::unique_ptr<RankPlanClient>> Connect(
      const std::string& socket, const std::string& job, int rank,
      const std::optional<Program>& program = {});
  // Returns the next rank plan; none if none arrives in time. Errors: kUnavailable if the agent has
  // gone or refuses the program, or the job has ended; kPermissionDenied if the rank is another
  // user's; kFailedPrecondition for an agent of another version.
  Result<std::optional<LocalRankPlan>> Wait(std::chrono::milliseconds patience);
  // Reports the outcome of a collective (its number is a program::CollectiveKind). The report is
  // lost if the agent is behind or gone.
  void Report(int collective, std::uint64_t sequence, std::uint64_t bytes,
              std::chrono::microseconds duration, const std::string& error);
  // Makes a Wait in another thread return.
  void Close();

 private:
  explicit RankPlanClient(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

// Returns the socket of the local API, with the defaults of Connect.
std::string AgentSocket(const std::string& socket);

// Reads a rank plan from the file that the agent sends. Errors: kInvalidArgument for malformed
// bytes.
Result<LocalRankPlan> ParsePlanFile(std::string_view bytes);

}  // namespace espalier::agent
