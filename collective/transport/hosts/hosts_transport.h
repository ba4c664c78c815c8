#pragma once

#include <memory>
#include <string>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/hosts/host_map.h"
#include "collective/transport/tcp/tcp_transport.h"
#include "common/base/result.h"

namespace espalier::transport {

struct HostsOptions {
  int channels = 8;  // within a host
  // Between hosts. Its slots are those within hosts, too.
  TcpOptions tcp = {.slots = 4, .slot_bytes = 512 << 10, .message_bytes = 256 << 10};
};

// Joins a transport whose connections go through shared memory where both ranks share a host, and
// over TCP between hosts, with the planned ports if there are any. A program thus mixes both.
//
// Waiting: a message can arrive on either side, and no system call waits for both. So a rank polls
// both, yields for some microseconds, and then sleeps in shared memory for at most 200 us at a
// time, after which it polls the sockets. A message from another host may thus be noticed up to
// 200 us late by a rank that sleeps.
// Errors: those of JoinShm and JoinTcp. A rank that has died is named by its number in the group,
// on both sides.
Result<std::unique_ptr<Transport>> JoinHosts(RendezvousStore& store, const std::string& name,
                                             int rank, const HostMap& hosts,
                                             const HostsOptions& options, Deadline deadline);

}  // namespace espalier::transport
