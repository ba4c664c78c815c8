#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/handshake.h"
#include "collective/transport/rendezvous/published_endpoint.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "common/base/address/ip_address.h"
#include "common/base/result.h"

namespace espalier::transport {

// Finds the other ranks of a group and recognises their connections. Each rank publishes its
// listening address in the store, with a random number. A rank that connects sends a Hello with
// that number and with all parameters that both ends must have in common. Thread safety: one thread
// at a time.
class Rendezvous {
 public:
  // The parameters that both ends of a transport's connections must have in common.
  struct Terms {
    std::string medium;         // part of the store's keys
    std::uint32_t magic = 0;    // of the transport's hellos
    std::uint32_t version = 0;  // of the transport's messages
    std::uint32_t form = 0;     // defined by the transport
    int slots = 0;
    std::size_t slot_bytes = 0;
  };

  // Errors: kInvalidArgument unless 0 <= rank < size.
  static Result<void> CheckRank(int rank, int size);
  // The store and the credentials must outlive it.
  Rendezvous(RendezvousStore& store, std::string name, int rank, int size, Terms terms,
             const GroupCredentials& members);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Publishes the address where this rank listens. Errors: those of the store.
  Result<void> Publish(const IpAddress& address, std::uint16_t port, Deadline deadline);
  // Waits until a peer has published its address. `check` is called periodically meanwhile; an
  // error ends the wait. Errors: those of the store and the check; kFailedPrecondition for a peer
  // of another version; kPermissionDenied for a peer at an address where it may not be.
  Result<PublishedEndpoint> FindPeer(int peer, Deadline deadline, const WaitCheck& check = {});
  // Returns the result of meeting the peers. If they did not meet by the deadline, its error also
  // names the first ranks that have published nothing, after a glance of at most half a second.
  Result<void> NameMissing(Result<void> met, Deadline deadline);
  // Errors: kInvalidArgument for a peer that is not another rank, or a negative channel.
  Result<void> CheckEndpoint(Endpoint endpoint) const;
  // The hello to a peer that has published the number `group`.
  Hello HelloTo(Endpoint endpoint, std::uint64_t group) const;
  // Whether a peer of this group would send this hello to this rank; the nonce is ignored.
  bool IsExpected(const Hello& hello) const;

 private:
  std::vector<int> FindMissing();
  std::string KeyOf(int rank) const;
  Result<std::string> AwaitKeyOf(int peer, Deadline deadline, const WaitCheck& check);
  Hello MakeHello(int from, int to, int channel, std::uint64_t group) const;

  RendezvousStore& store_;
  const std::string name_;
  const int rank_;
  const int size_;
  const Terms terms_;
  const GroupCredentials& members_;
  const std::uint64_t group_;
};

// The error, prefixed with the endpoint that it concerns.
tl::unexpected<Error> FailAt(Endpoint endpoint, const Error& error);

}  // namespace espalier::transport
