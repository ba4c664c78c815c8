#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/handshake.h"
#include "collective/transport/rendezvous/published_endpoint.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "common/base/ip_address.h"
#include "common/base/result.h"

namespace espalier::transport {

// How a rank finds the others of its group and knows their calls: each rank publishes in the store
// where it listens, with a number that it has drawn, and whoever calls it says a Hello with that
// number and with all that both have to have alike.
// Thread safety: one thread at a time.
class Rendezvous {
 public:
  // What connections of a transport have alike at both ends.
  struct Terms {
    std::string medium;         // in the store's keys
    std::uint32_t magic = 0;    // of its hellos
    std::uint32_t version = 0;  // of its messages
    std::uint32_t form = 0;     // as the transport likes
    int slots = 0;
    std::size_t slot_bytes = 0;
  };

  // Errors: kInvalidArgument for a rank that no group of so many has.
  static Result<void> CheckRank(int rank, int size);
  // The store and the members outlive it.
  Rendezvous(RendezvousStore& store, std::string name, int rank, int size, Terms terms,
             const GroupCredentials& members);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Lets the others find this rank. Errors: those of the store.
  Result<void> Publish(const IpAddress& address, std::uint16_t port);
  // Waits until a peer has published where it is. `check`, where there is one, is asked now and
  // then meanwhile; an error ends that. Errors: those of the store and the check;
  // kFailedPrecondition for a peer of another version; kPermissionDenied for one that is where it
  // may not be.
  Result<PublishedEndpoint> FindPeer(int peer, Deadline deadline, const WaitCheck& check = {});
  // Errors: kInvalidArgument for a peer or a channel that is not there.
  Result<void> CheckEndpoint(Endpoint endpoint) const;
  // What this rank says when it calls a peer that has published the number `group`.
  Hello HelloTo(Endpoint endpoint, std::uint64_t group) const;
  // Whether that is what a peer of this group says to this rank; its number in the handshake aside.
  bool IsExpected(const Hello& hello) const;

 private:
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

// The error, after the endpoint that it is about.
tl::unexpected<Error> FailAt(Endpoint endpoint, const Error& error);

}  // namespace espalier::transport
