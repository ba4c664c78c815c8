#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include "common/base/time/event_loop.h"
#include "common/base/time/token_bucket.h"
#include "common/net/socket_address.h"

namespace espalier::io {

// The part of an address that one host owns: an IPv4 address, or the /64 of an IPv6 address.
std::string SourceOf(const SocketAddress& address);

// Limits what each source (SourceOf) may cause. Up to 4,096 sources are tracked at a time; while
// none of them has its full share again, no further one is.
// Thread safety: none. Complexity: O(1); O(sources) if the table is full.
class SourceAllowance {
 public:
  SourceAllowance(double per_second, double at_once) : per_second_(per_second), at_once_(at_once) {}

  // Returns false, and takes nothing, if the source has to wait or is not tracked.
  bool Take(const std::string& source, TimePoint now);
  // Takes one in any case, if the source is tracked.
  void Charge(const std::string& source, TimePoint now);
  // The time until the source owes less than `debt`; 0: it does already, or is not tracked.
  Duration WaitFor(const std::string& source, double debt, TimePoint now);

 private:
  TokenBucket* Find(const std::string& source, TimePoint now);

  const double per_second_;
  const double at_once_;
  std::unordered_map<std::string, TokenBucket> sources_;
};

}  // namespace espalier::io
