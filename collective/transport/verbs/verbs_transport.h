#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "common/base/result.h"
#include "common/verbs/verbs.h"

namespace espalier::transport {

struct VerbsOptions {
  int slots = 4;
  std::size_t slot_bytes = 512 << 10;
  // The RoCEv2 address of this rank's device, IPv4 or IPv6, in digits.
  std::string address;
  // Where the ranks meet over TCP, and tell each other why they give up; empty: `address`.
  std::string control_address;
  // By what the ranks know one another; without a key the control address must be a loopback
  // address.
  GroupCredentials members;
  // Of each connection; the first carry the messages, the others wait until one of those dies.
  int queue_pairs = 2;
  // The source ports that were planned for what this rank sends there, at most `queue_pairs`: one
  // for each queue pair that carries messages. None: one queue pair, with the port that the device
  // gives it (plain ECMP).
  std::function<std::vector<std::uint16_t>(Endpoint)> source_ports;
  verbs::RetryPolicy patience;  // doubled with each failure of a queue pair, up to 16 times as long
  // Asked now and then while Connect waits; an error ends it.
  WaitCheck check;
};

class VerbsTransport : public Transport {
 public:
  // From now on messages take these source ports, at most Options::queue_pairs, in the order they
  // were committed. At once where the device can change the port of a queue pair in use, else a
  // new one takes the old one's place as soon as that has done what was posted.
  // Errors: kInvalidArgument for ports that RoCE does not have or too many.
  virtual Result<void> SetSourcePorts(Endpoint endpoint, std::span<const std::uint16_t> ports) = 0;
};

// Connections over RDMA: a pool of reliable queue pairs for each endpoint, each with a source port
// of its own. A message is written into the receiver's slot together with its length and tag, with
// immediate data that says which it is; several queue pairs share the messages, and the receiver
// puts them in order.
//
// A queue pair whose path dies (its retries run out) takes none of the messages with it: its other
// end is closed, so that nothing that is still on the way can arrive, says what has arrived, and
// the rest is sent over others. Meanwhile another is made in its place, from another port.
//
// Errors: kInvalidArgument for options that make no sense; kNotFound for an address that no device
// has; kPermissionDenied as JoinTcp; those of verbs.h; kUnavailable for a peer that does not come
// or is gone (one with other sizes of slots does not come).
Result<std::unique_ptr<VerbsTransport>> JoinVerbs(RendezvousStore& store, const std::string& name,
                                                  int rank, int size, const VerbsOptions& options);

}  // namespace espalier::transport
