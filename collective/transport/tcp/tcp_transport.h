#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/send_observer.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// The connections of a collective plan. A fabric hashes each direction of a connection separately,
// by its sender's port. So each direction is a connection of its own, which the sender opens from
// the planned port. Channels without a planned port use any port.
struct PlannedConnections {
  struct Send {
    std::uint16_t port = 0;  // the local port; 0: any
    // The addresses at both ends; none: those of the ranks.
    std::optional<IpAddress> source;
    std::optional<IpAddress> destination;
  };
  std::map<Endpoint, Send> sends;
  std::set<Endpoint> receives;
};

struct TcpOptions {
  int slots = 8;
  std::size_t slot_bytes = 1 << 20;
  // The size that moves large data fastest within a host (measured in docs/benchmarks.md).
  std::size_t message_bytes = 512 << 10;
  // The address at which other ranks reach this one, IPv4 or IPv6, in digits.
  std::string address = "127.0.0.1";
  // The group's credentials; without a key the address must be a loopback address.
  GroupCredentials members;
  // A listening socket of that address. Transports may share it, if no two of them Connect at the
  // same time. Null: an own socket, on any port.
  std::shared_ptr<const UniqueFd> listener;
  // Listening sockets of the same port at further addresses.
  std::vector<std::shared_ptr<const UniqueFd>> more_listeners;
  // The cores that the ranks of this host share; 0: all of its cores. If there are fewer cores than
  // ranks, a rank sends in place to one peer at a time (ZeroCopySendToken).
  int cores = 0;
  // The source of slots; must outlive the transport.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
  // Limits the join.
  Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  // Called periodically while Connect waits; an error ends the wait.
  WaitCheck check;
  // Is told of the connections over which this rank sends; must outlive the transport. Null:
  // nobody.
  SendObserver* observer = nullptr;
  // Unset: one connection for both directions of an endpoint, from any port.
  std::optional<PlannedConnections> planned;
};

// Joins a transport with a TCP connection for each endpoint, or two if they are planned.
// Connections to one peer are independent of each other. The kernel buffers data in addition to the
// slots. Only the calling thread drives the transport. A planned connection ends without leaving
// its port in TIME_WAIT, so the next plan can use the port at once. On every connection both ends
// first prove that they have the group's key (handshake.h). Errors: kInvalidArgument for an invalid
// address; kPermissionDenied for an address that a group without a key may not use, a peer at an
// address where it may not be, or a peer with another key; kAlreadyExists for a planned port in
// use; kUnavailable for a peer that cannot be reached or does not come. Peers of another version or
// with other slot sizes are treated as strangers.
Result<std::unique_ptr<Transport>> JoinTcp(RendezvousStore& store, const std::string& name,
                                           int rank, int size, const TcpOptions& options);

}  // namespace espalier::transport
