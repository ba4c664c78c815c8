#include "common/base/address/ip_prefix.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace espalier {
namespace {

constexpr int kAddressBits = 128;
constexpr int kMappedBits = 96;  // bits before the IPv4 address in an IPv4-mapped one

// The address with all bits after the first `bits` cleared.
IpAddress FirstOf(const IpAddress& address, int bits) {
  IpAddress::Bytes bytes = address.bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const int kept = std::clamp(bits - static_cast<int>(8 * i), 0, 8);
    bytes[i] = static_cast<std::uint8_t>(bytes[i] & ~(0xffU >> kept));
  }
  return IpAddress(bytes);
}

}  // namespace

Result<IpPrefix> IpPrefix::Parse(std::string_view text) {
  const auto fail = [&] {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("\"{}\" is not a network (write an address, a slash and the number of its "
                    "leading bits that are fixed, such as 10.0.0.0/8)",
                    text));
  };
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return fail();
  const auto address = IpAddress::Parse(text.substr(0, slash));
  const std::string_view digits = text.substr(slash + 1);
  int bits = -1;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (!address || read.ec != std::errc() || read.ptr != digits.data() + digits.size()) {
    return fail();
  }
  if (address->IsV4()) bits += kMappedBits;
  if (bits < (address->IsV4() ? kMappedBits : 0) || bits > kAddressBits ||
      FirstOf(*address, bits) != *address) {
    return fail();
  }
  return IpPrefix(*address, bits);
}

bool IpPrefix::Contains(const IpAddress& address) const {
  return address.IsV4() == first_.IsV4() && FirstOf(address, bits_) == first_;
}

}  // namespace espalier
