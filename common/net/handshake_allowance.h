#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "common/base/event_loop.h"
#include "common/net/socket_address.h"

namespace espalier::io {

// How many TLS handshakes, each of which costs about a millisecond of a processor, one address may
// begin (of IPv6: one /64, as a host has all of it): 50 at one moment, and 20 a second. 4,096
// addresses are told apart at a time; while all of these are busy, others have to wait.
// Thread safety: none.
class HandshakeAllowance {
 public:
  // False where the source has to wait.
  bool Take(const SocketAddress& source, TimePoint now);

 private:
  struct Bucket {
    double left;
    TimePoint filled;
  };

  static void Fill(Bucket& bucket, TimePoint now);
  void DropIdle(TimePoint now);

  std::unordered_map<std::string, Bucket> sources_;
};

}  // namespace espalier::io
