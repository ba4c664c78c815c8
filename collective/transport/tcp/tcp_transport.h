#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// Which connections messages take where their paths are planned. A fabric hashes each direction of
// a connection by itself, from the sender's port: so each direction is a connection of its own,
// that the sender opens from the port of its plan. Channels of a program that no plan has ports for
// take any port.
struct PlannedConnections {
  std::map<Endpoint, std::uint16_t> sends;  // and from which local port; 0: any
  std::set<Endpoint> receives;
};

struct TcpOptions {
  int slots = 8;
  std::size_t slot_bytes = 1 << 20;
  // What moves large data fastest within a host: measured in docs/benchmarks.md.
  std::size_t message_bytes = 512 << 10;
  // The address that the others reach this rank at, IPv4 or IPv6, in digits.
  std::string address = "127.0.0.1";
  // By what the ranks know one another; without a key the address must be a loopback address.
  GroupCredentials members;
  // A socket of that address that listens; shared with transports before and after this one, which
  // take turns: two of them do not Connect at the same time. None: one of its own, on any port.
  std::shared_ptr<const UniqueFd> listener;
  // That the ranks of this host share; 0: as many as it has. Where they are fewer than those ranks,
  // a rank lends to one peer at a time, unless that moves nothing.
  int cores = 0;
  // Where slots come from; must outlive the transport.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  // Asked now and then while Connect waits; an error ends it.
  WaitCheck check;
  // None: one connection for both directions of an endpoint, from any port.
  std::optional<PlannedConnections> planned;
};

// A TCP connection for each endpoint (two where they are planned): several to one peer are
// independent of one another, and of their channels' order. The kernel's buffers come on top of the
// slots. Driven by the calling thread alone; there is no thread of its own.
// A planned connection ends without leaving its port in TIME_WAIT, so that the next plan can have
// the port at once.
// Every connection begins with both ends' proof that they have the group's key (handshake.h).
// Errors: kInvalidArgument for an address that is none; kPermissionDenied for an address that a
// group without a key is not to meet at, a peer that is where it may not be, or one that has
// another key; kAlreadyExists for a planned port that is taken; kUnavailable for a peer that cannot
// be reached or does not come. Peers of another version or with other sizes of slots are taken for
// strangers.
Result<std::unique_ptr<Transport>> JoinTcp(RendezvousStore& store, const std::string& name,
                                           int rank, int size, const TcpOptions& options);

// A socket that listens on that port of the address (0: any).
// Errors: kInvalidArgument, kAlreadyExists for a port that is taken, kUnavailable.
Result<std::shared_ptr<const UniqueFd>> ListenOn(const std::string& address, std::uint16_t port);

}  // namespace espalier::transport
