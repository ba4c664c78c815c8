#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/shm/shared_group.h"
#include "common/base/result.h"

namespace espalier::transport {

struct ShmOptions {
  int channels = 8;
  int slots = 4;
  std::size_t slot_bytes = 256 << 10;  // a multiple of 4096
  // The numbers by which messages name the ranks, if the group is a part of another one.
  std::vector<int> names = {};
};

// Joins a transport in memory that the ranks of one host share. Each connection is a ring of slots
// that the sender writes and the receiver reads in place. A rank sleeps on one signal, which its
// peers raise when they commit a message to it or release one from it.
// Errors of joining: as SharedGroup::Join. Errors of Connect: kInvalidArgument for a peer or a
// channel that does not exist; it never waits.
Result<std::unique_ptr<Transport>> JoinShm(RendezvousStore& store, const std::string& name,
                                           int rank, int size, const ShmOptions& options,
                                           Deadline deadline);

// The same in memory of a group that its ranks have joined for other uses, too: ShmMemoryOf zeroed
// bytes of it, aligned to pages, which the transport uses alone. The group must outlive the
// transport.
std::size_t ShmMemoryOf(int size, const ShmOptions& options);
std::unique_ptr<Transport> MakeShm(SharedGroup& group, std::byte* memory,
                                   const ShmOptions& options);

}  // namespace espalier::transport
