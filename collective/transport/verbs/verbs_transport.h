#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/verbs/verbs.h"

namespace espalier::transport {

struct VerbsOptions {
  int slots = 4;
  std::size_t slot_bytes = 512 << 10;
  // The RoCEv2 address of this rank's first device, IPv4 or IPv6, in digits.
  std::string address;
  // The address for the TCP connections by which ranks set up queue pairs and tell each other of
  // aborts; empty: `address`.
  std::string control_address;
  // The group's credentials; without a key the control address must be a loopback address.
  GroupCredentials members;
  // Queue pairs of each connection. The first ones carry messages; the others replace one that
  // dies.
  int queue_pairs = 2;
  // The planned source ports for what this rank sends to an endpoint, at most `queue_pairs`, one
  // for each queue pair that carries messages. Empty: one queue pair carries messages, with a port
  // that the device chooses (plain ECMP).
  std::function<std::vector<std::uint16_t>(Endpoint)> source_ports;
  // The address of the device for the connection to an endpoint, where a rank uses several devices;
  // none: `address`. Unset: all connections use `address`.
  std::function<std::optional<IpAddress>(Endpoint)> device_of;
  verbs::RetryPolicy patience;  // doubled with each failure of a queue pair, up to 16 times as long
  // Limits the join.
  Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  // Called periodically while Connect waits; an error ends the wait.
  WaitCheck check;
};

class VerbsTransport : public Transport {
 public:
  // Sets the source ports for later messages, at most VerbsOptions::queue_pairs. If the device can
  // change the port of a queue pair in use, the change takes effect at once. Otherwise a new queue
  // pair replaces the old one when that has sent everything posted.
  // Errors: kInvalidArgument for ports outside of RoCEv2's range, or too many ports.
  virtual Result<void> SetSourcePorts(Endpoint endpoint, std::span<const std::uint16_t> ports) = 0;
};

// Joins a transport over RDMA. Each endpoint has a pool of reliable queue pairs, each with a source
// port of its own. A message is written into the receiver's slot with its length and tag, and
// immediate data tells its number. Several queue pairs share the messages, and the receiver puts
// them in order.
//
// If the path of a queue pair dies (its retries run out), no message is lost. Its other end is
// closed, so that delayed packets cannot arrive any more, and tells what has arrived; the rest is
// sent over other queue pairs. Meanwhile a new one with another source port replaces it.
//
// Errors: kInvalidArgument for invalid options; kNotFound for an address that no device has;
// kPermissionDenied as JoinTcp; those of verbs.h; kUnavailable for a peer that is gone or does not
// connect in time (as one with other slot sizes).
Result<std::unique_ptr<VerbsTransport>> JoinVerbs(RendezvousStore& store, const std::string& name,
                                                  int rank, int size, const VerbsOptions& options);

}  // namespace espalier::transport
