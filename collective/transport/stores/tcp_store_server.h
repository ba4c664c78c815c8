#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>

#include "collective/transport/rendezvous/group_credentials.h"
#include "common/base/result.h"

namespace espalier::transport {

struct TcpStoreLimits {
  std::size_t keys = 65'536;
  // Within this time a client must send its request; waiting for a key is not limited.
  std::chrono::milliseconds silence{10'000};
  // The beginning of all keys of the group that is served. Clients that ask for others are told to
  // come again, as their group may follow at the same port.
  std::string prefix;
  // Pays for keys, values, and what clients have sent or have not read yet. If it has no more
  // (std::bad_alloc), the client whose request needs more is disconnected.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

// The server of a TcpStore: holds the keys and answers requests in a thread of its own.
// Values have at most 64 KiB, and there are at most 4,096 connections with one request each. A
// client that sends anything else is disconnected. A value that is replaced is kept for clients
// that have not read it; beyond 4 MiB of such values, those that have waited longest are
// disconnected. Client and server prove with every request and answer that they have the group's
// key. Without a key the address must be a loopback address, and anybody who reaches it can set
// keys.
class TcpStoreServer {
 public:
  // Errors: kInvalidArgument; kAlreadyExists for a port in use; kUnavailable; kPermissionDenied if
  // the group has no key and may not use the address without one.
  static Result<std::unique_ptr<TcpStoreServer>> Listen(const std::string& address,
                                                        std::uint16_t port,
                                                        const GroupCredentials& members,
                                                        const TcpStoreLimits& limits = {});
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;
  virtual ~TcpStoreServer() = default;

  virtual std::uint16_t port() const = 0;

 protected:
  TcpStoreServer() = default;
};

}  // namespace espalier::transport
