#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/runtime/offload/job_directory.h"
#include "common/base/address/ip_prefix.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

struct OffloadOptions {
  // The most ranks served at the same time, in total and for one user. Each takes a thread. Beyond
  // the total, the user with the most loses one to a user with fewer: one that has not joined a
  // group, or else its newest.
  std::size_t max_sessions = 128;
  std::size_t max_sessions_per_user = 64;
  // The most connections without a request yet. A further connection replaces the oldest one of the
  // user with the most.
  std::size_t max_unidentified = 64;
  // For the first request, and for one that joins a group.
  std::chrono::milliseconds identification_timeout{10'000};
  // Shared memory is allocated by programs and charged to them; the offload service pays for page
  // tables, 1/512 of it.
  std::size_t max_buffers_per_session = 256;
  std::size_t max_shared_bytes_per_session = std::size_t{64} << 30;
  std::size_t max_shared_bytes_per_user = std::size_t{128} << 30;
  std::size_t max_shared_bytes = std::size_t{256} << 30;
  // The offload service's own memory for groups and programs.
  std::size_t max_memory_per_session = std::size_t{1} << 30;
  std::size_t max_memory_per_user = std::size_t{2} << 30;
  std::size_t max_memory = std::size_t{3} << 30;
  std::string costs_file;  // as CommunicatorOptions::costs_file
  // Knows the groups of jobs; must outlive the service. Null: jobs are refused.
  JobDirectory* authority = nullptr;
  // The networks in which groups that programs name may connect and listen. Empty: such groups are
  // refused, because a program could use the service to reach what it cannot reach itself.
  std::vector<IpPrefix> networks;
};

// The sessions of an offload service, and what it has refused since its start.
struct OffloadCounts {
  std::size_t sessions = 0;
  std::size_t silent = 0;        // connections without a request yet
  std::size_t memory_bytes = 0;  // of the offload service, for all sessions
  std::size_t shared_bytes = 0;  // of programs, in all sessions
  std::uint64_t refused = 0;     // connections beyond a limit, or silent for too long
  std::uint64_t failed = 0;      // sessions that exhausted their memory or sent invalid data
};

// The offload service: runs the collectives of programs on this host, in their memory. It frees the
// programs' cores for other work, and can run on a SmartNIC. A program joins a group through a Unix
// socket, shares memory files and posts calls in a ring (offloaded_group.h). Each of its ranks has
// a thread here, which runs a Communicator.
//
// Programs are not trusted, and sessions are isolated from each other:
//  - A program says which rank of which job it is. How that rank joins its group (store, addresses,
//    key) comes from the job directory. Ranks connect over TCP or verbs, never in shared memory
//    that one of them could manipulate.
//  - What a program sends is copied and checked before use. Offsets refer only to memory that the
//    same session has handed over, and that was sealed then (mapped_file.h).
//  - Sessions, silent connections, shared bytes and memory are limited for each user
//    (LocalPeer::payer) and in total, before anything is allocated. A session that exhausts its
//    memory ends with an error and does not affect others.
// A program that sends invalid data or dies loses its session, and the ranks of its group get an
// error.
// Thread safety: any thread. The destructor ends all calls in progress and waits for them.
class OffloadService {
 public:
  // Listens on a socket at that path. Errors: kInvalidArgument for the path; kAlreadyExists if an
  // offload service listens there already; kUnavailable; those of ReadCostsFile.
  static Result<std::unique_ptr<OffloadService>> Listen(const std::string& path,
                                                        const OffloadOptions& options = {});
  // Serves a socket that listens already (SOCK_SEQPACKET, non-blocking). Errors: as above.
  static Result<std::unique_ptr<OffloadService>> Serve(UniqueFd listener,
                                                       const OffloadOptions& options = {});
  OffloadService(const OffloadService&) = delete;
  OffloadService& operator=(const OffloadService&) = delete;
  virtual ~OffloadService() = default;

  virtual OffloadCounts counts() const = 0;

 protected:
  OffloadService() = default;
};

}  // namespace espalier::runtime
