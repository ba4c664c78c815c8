#pragma once

#include <cstdint>
#include <string>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"

namespace espalier::transport {

// The address where a rank listens, as it is published in the rendezvous store.
struct PublishedEndpoint {
  IpAddress address;
  std::uint16_t port = 0;
  std::uint64_t group = 0;    // a random number of the rank; only readers of the store know it
  std::uint32_t version = 0;  // of the transport's messages

  // "ADDRESS PORT GROUP VERSION".
  std::string ToText() const;
  // Errors: kFailedPrecondition for another version or other text.
  static Result<PublishedEndpoint> Parse(const std::string& text, std::uint32_t version);
};

// Draws a random group number.
std::uint64_t DrawGroup();

}  // namespace espalier::transport
