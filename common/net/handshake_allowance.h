#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "common/base/event_loop.h"
#include "common/net/socket_address.h"

namespace espalier::io {

// Limits the TLS handshakes, about a millisecond of CPU time each, that one address may begin: 50
// at once and 20 per second. An IPv6 /64 counts as one address, as a host owns all of it. Up to
// 4,096 addresses are tracked at a time; while all of these are busy, others have to wait.
// Thread safety: none.
class HandshakeAllowance {
 public:
  // Returns false if the source has to wait.
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
