#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/runtime/offload/job_directory.h"
#include "common/base/ip_prefix.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

struct OffloadOptions {
  // Ranks that are served at the same time: in all, and of one user. Each takes a thread.
  std::size_t max_sessions = 128;
  std::size_t max_sessions_per_user = 64;
  // Connections that have not yet said what they want. Who comes when there are so many takes the
  // place of the oldest one of the user that has most.
  std::size_t max_unidentified = 64;
  std::chrono::milliseconds identification_timeout{10'000};
  // Shared memory is allocated by programs, on their account; here it costs page tables, 1/512 of
  // it.
  std::size_t max_buffers_per_session = 256;  // of a session
  std::size_t max_shared_bytes_per_session = std::size_t{64} << 30;
  std::size_t max_shared_bytes_per_user = std::size_t{128} << 30;
  std::size_t max_shared_bytes = std::size_t{256} << 30;
  // The engine's own memory for groups and programs.
  std::size_t max_memory_per_session = std::size_t{1} << 30;
  std::size_t max_memory_per_user = std::size_t{2} << 30;
  std::size_t max_memory = std::size_t{3} << 30;
  std::string costs_file;  // as CommunicatorOptions has it
  // Knows the groups of jobs; must outlive the engine. None: there are no jobs.
  JobDirectory* authority = nullptr;
  // Where groups that programs name themselves may meet and listen. None: such groups are refused,
  // as a program could use the engine to reach what it cannot reach itself.
  std::vector<IpPrefix> networks;
};

// Who an engine serves, and whom it has refused since it began.
struct OffloadCounts {
  std::size_t sessions = 0;
  std::size_t silent = 0;
  std::size_t memory_bytes = 0;  // of the engine, for all sessions
  std::size_t shared_bytes = 0;  // of programs, in all sessions
  std::uint64_t refused = 0;     // connections beyond a limit, or silent for too long
  std::uint64_t failed = 0;      // sessions that ran out of their memory or sent nonsense
};

// Does the collectives of programs on this host, in their memory: what frees the cores of programs
// that have better things to do, and all that a host with a SmartNIC needs. A program joins a
// group through a unix socket, shares memory files and posts calls in a ring (offloaded_group.h);
// each of its ranks has a thread here, which runs a Communicator.
//
// Programs are not trusted, and are no peers:
//  - A program says which rank of which job it is; where that rank's group meets, under which
//    addresses and with which key comes from the authority. Ranks meet over TCP or verbs, never in
//    memory that one of them could shape for the others.
//  - What a program sends is copied and checked before use. An offset is one into memory that this
//    very session has handed over, and that was sealed then (mapped_file.h).
//  - Sessions, silent connections, shared bytes and memory are limited for each user (as the kernel
//    names the peer, SO_PEERCRED) and in all, before anything is allocated. A session that runs out
//    of memory ends with an error, and no other notices.
// A program that sends nonsense or dies loses its session, and the ranks of its group learn that it
// has gone.
// Thread safety: any thread. The destructor ends all calls that are under way and waits for them.
class OffloadService {
 public:
  // Listens on a socket at that path. Errors: kInvalidArgument for the path, kAlreadyExists where
  // an engine listens there already, kUnavailable; those of ReadCostsFile.
  static Result<std::unique_ptr<OffloadService>> Listen(const std::string& path,
                                                        const OffloadOptions& options = {});
  // On a socket that listens already (SOCK_SEQPACKET, not blocking). Errors: as above.
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
