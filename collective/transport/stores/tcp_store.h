#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "common/base/result.h"

namespace espalier::transport {

// What a TcpStore talks to: holds the keys and answers, in a thread of its own, until it goes.
// At most 65,536 keys, values of 64 KiB, 4,096 connections, of one request each; a caller that
// sends anything else is cut off. Client and server prove to each other, with every request and
// answer, that they have the group's key; without one the address must be a loopback address, and
// whoever reaches it can set keys.
class TcpStoreServer {
 public:
  // Errors: kInvalidArgument, kAlreadyExists for a port that is taken, kUnavailable,
  // kPermissionDenied for an address that a group without a key is not to meet at.
  static Result<std::unique_ptr<TcpStoreServer>> Listen(const std::string& address,
                                                        std::uint16_t port,
                                                        const GroupCredentials& members);
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;
  virtual ~TcpStoreServer() = default;

  virtual std::uint16_t port() const = 0;

 protected:
  TcpStoreServer() = default;
};

// Keys at a server somewhere in the network. Connects anew for every request, and waits for a
// server that does not listen yet.
// Errors: kInvalidArgument for keys and values that are too long; kPermissionDenied for a server
// that has another key, or none; kUnavailable.
class TcpStore : public RendezvousStore {
 public:
  // `patience`: with a server that does not answer a Set.
  static Result<std::unique_ptr<TcpStore>> At(const std::string& address, std::uint16_t port,
                                              std::chrono::milliseconds patience,
                                              const GroupCredentials& members);
  Result<void> Set(const std::string& key, const std::string& value) override;
  Result<std::string> Get(const std::string& key, Deadline deadline) override;

 private:
  TcpStore(const SocketAddress& server, std::string name, std::chrono::milliseconds patience,
           const std::optional<JobKey>& key)
      : server_(server), name_(std::move(name)), patience_(patience), key_(key) {}
  Result<std::string> Ask(char kind, const std::string& key, const std::string& value,
                          Deadline deadline);
  Result<std::string> AskOn(int socket, char kind, const std::string& key, const std::string& value,
                            Deadline deadline);

  SocketAddress server_;
  std::string name_;
  std::chrono::milliseconds patience_;
  std::optional<JobKey> key_;
};

// The store of a group by its name: "tcp://ADDRESS:PORT" (ADDRESS in digits, IPv6 in brackets),
// which rank 0 serves for as long as it has the store, or else a folder.
// Errors: kInvalidArgument for what is no address, those of TcpStoreServer.
Result<std::unique_ptr<RendezvousStore>> OpenStore(const std::string& place, int rank,
                                                   std::chrono::milliseconds patience,
                                                   const GroupCredentials& members);

}  // namespace espalier::transport
