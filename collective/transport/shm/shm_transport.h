#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/shm/shared_group.h"
#include "common/base/result.h"

namespace espalier::transport {

struct ShmOptions {
  int channels = 8;
  int slots = 4;
  std::size_t slot_bytes = 256 << 10;  // a multiple of 4096
};

// Connections in memory that the ranks of one host share: a ring of slots for each, written by the
// sender and read by the receiver in place. A rank sleeps on one signal, which its peers raise
// whenever they commit to it or release what it sent.
// Errors of Join: as SharedGroup::Join. Of Connect: kInvalidArgument for a peer or channel that is
// not there; it never waits.
Result<std::unique_ptr<Transport>> JoinShm(RendezvousStore& store, const std::string& name,
                                           int rank, int size, const ShmOptions& options,
                                           Deadline deadline);

}  // namespace espalier::transport
