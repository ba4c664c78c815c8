#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace espalier::runtime {

struct OffloadOptions {
  std::size_t most_sessions = 64;                  // programs at the same time
  std::size_t most_buffers = 256;                  // of a session
  std::size_t most_bytes = std::size_t{64} << 30;  // of a session, in all its buffers
  std::string costs_file;                          // as CommunicatorOptions has it
};

// Does the collectives of programs on this host, in their memory: what the agent runs for programs
// that have better things to do, and all that a host with a SmartNIC needs. A program joins a
// group through a unix socket, shares memory files and posts calls in a ring (offloaded_group.h);
// each of its ranks has a thread here, which runs a Communicator.
//
// Programs are not trusted. What they send is copied and checked before use; their memory must be
// sealed against shrinking and is had from the system when it comes; a program that sends nonsense
// or dies loses its session, and the ranks of its group learn that it has gone. Groups meet
// through "tcp://ADDRESS:PORT" at ports from 1024 on: the engine writes no files for programs.
// Thread safety: the destructor ends all calls that are under way and waits for them.
class OffloadEngine {
 public:
  // Errors: kInvalidArgument for the path, kAlreadyExists where an engine listens there already,
  // kUnavailable; those of ReadCostsFile.
  static Result<std::unique_ptr<OffloadEngine>> Listen(const std::string& path,
                                                       const OffloadOptions& options = {});
  OffloadEngine(const OffloadEngine&) = delete;
  OffloadEngine& operator=(const OffloadEngine&) = delete;
  virtual ~OffloadEngine() = default;

 protected:
  OffloadEngine() = default;
};

}  // namespace espalier::runtime
