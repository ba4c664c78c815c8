#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace espalier {

// An IPv4 or IPv6 address. IPv4 addresses are stored IPv4-mapped (::ffff:a.b.c.d, RFC 4291 section
// 2.5.5.2), so that one type serves both and equal addresses compare equal. The default is "::",
// which stands for no address.
class IpAddress {
 public:
  using Bytes = std::array<std::uint8_t, 16>;  // network order

  constexpr IpAddress() = default;
  constexpr explicit IpAddress(const Bytes& bytes) : bytes_(bytes) {}
  static IpAddress FromV4(std::uint32_t host_order);
  // Errors: kInvalidArgument if text is neither "a.b.c.d" nor an IPv6 address (RFC 5952).
  static Result<IpAddress> Parse(std::string_view text);

  bool IsV4() const;
  bool IsNone() const { return *this == IpAddress(); }
  std::uint32_t V4() const;  // host order; IsV4() must hold
  const Bytes& bytes() const { return bytes_; }
  std::string ToString() const;

  constexpr auto operator<=>(const IpAddress&) const = default;

 private:
  Bytes bytes_{};
};

}  // namespace espalier

template <>
struct std::hash<espalier::IpAddress> {
  std::size_t operator()(const espalier::IpAddress& address) const noexcept;
};
