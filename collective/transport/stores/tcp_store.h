#pragma once

#include <memory>
#include <string>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "collective/transport/stores/tcp_store_server.h"
#include "common/base/address/ip_address.h"
#include "common/base/result.h"

namespace espalier::transport {

// A rendezvous store at a server in the network. Opens a connection for each request, and waits for
// a server that does not listen yet, or that serves another group. If it is cut off, it tries again
// for a second, as the server may be that of a job that ends.
// Errors: kInvalidArgument for keys and values that are too long; kPermissionDenied for a server
// with another job key or none; kUnavailable.
class TcpStore : public RendezvousStore {
 public:
  static Result<std::unique_ptr<TcpStore>> At(const std::string& address, std::uint16_t port,
                                              const GroupCredentials& members);
  Result<void> Set(const std::string& key, const std::string& value, Deadline deadline) override;
  Result<std::string> Get(const std::string& key, Deadline deadline) override;
  Result<std::string> SetOnce(const std::string& key, const std::string& value,
                              Deadline deadline) override;

 private:
  TcpStore(const SocketAddress& server, std::string name, const std::optional<JobKey>& key)
      : server_(server), name_(std::move(name)), key_(key) {}
  Result<std::string> Ask(char kind, const std::string& key, const std::string& value,
                          Deadline deadline);
  // None: the server serves another group.
  Result<std::optional<std::string>> AskOn(int socket, char kind, const std::string& key,
                                           const std::string& value, Deadline deadline);

  SocketAddress server_;
  std::string name_;
  std::optional<JobKey> key_;
};

// This host's own address on the route to the store "tcp://ADDRESS:PORT".
// Errors: kInvalidArgument for another text; kUnavailable without a route.
Result<IpAddress> AddressTowardsStore(const std::string& place);

// Opens a store by its name: "tcp://ADDRESS:PORT" (ADDRESS in digits, IPv6 in brackets), which rank
// 0 serves as long as it has the store open, within the limits, or else an existing folder.
// Errors: kInvalidArgument for an invalid address; kNotFound for an unknown folder; those of
// TcpStoreServer.
Result<std::unique_ptr<RendezvousStore>> OpenStore(const std::string& place, int rank,
                                                   const GroupCredentials& members,
                                                   const TcpStoreLimits& limits = {});

}  // namespace espalier::transport
