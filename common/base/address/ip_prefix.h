#pragma once

#include <string>
#include <string_view>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"

namespace espalier {

// A prefix of addresses, such as "10.0.0.0/8" or "fd00::/8" (RFC 4632, RFC 4291 section 2.3). IPv4
// prefixes contain IPv4 addresses only.
class IpPrefix {
 public:
  // Errors: kInvalidArgument for text of another form, and for bits that are set after the prefix.
  static Result<IpPrefix> Parse(std::string_view text);

  bool Contains(const IpAddress& address) const;
  bool operator==(const IpPrefix&) const = default;

 private:
  IpPrefix(const IpAddress& first, int bits) : first_(first), bits_(bits) {}

  IpAddress first_;
  int bits_;  // length of the prefix, counted in the 128 bits of an IPv6 address
};

}  // namespace espalier
