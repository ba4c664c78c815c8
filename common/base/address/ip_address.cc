#include "common/base/address/ip_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace espalier {
namespace {

constexpr std::array<std::uint8_t, 12> kV4Prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

IpAddress IpAddress::FromV4(std::uint32_t host_order) {
  Bytes bytes{};
  std::copy(kV4Prefix.begin(), kV4Prefix.end(), bytes.begin());
  const std::uint32_t network_order = htonl(host_order);
  std::memcpy(bytes.data() + kV4Prefix.size(), &network_order, sizeof network_order);
  return IpAddress(bytes);
}

Result<IpAddress> IpAddress::Parse(std::string_view text) {
  const std::string copy(text.substr(0, INET6_ADDRSTRLEN));
  in_addr v4{};
  if (inet_pton(AF_INET, copy.c_str(), &v4) == 1) return FromV4(ntohl(v4.s_addr));
  Bytes bytes{};
  if (text.size() < INET6_ADDRSTRLEN && inet_pton(AF_INET6, copy.c_str(), bytes.data()) == 1) {
    return IpAddress(bytes);
  }
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("\"{}\" is not an IPv4 or IPv6 address (write one such as 10.0.0.1 or fd00::1)",
                  copy));
}

bool IpAddress::IsV4() const {
  return std::equal(kV4Prefix.begin(), kV4Prefix.end(), bytes_.begin());
}

std::uint32_t IpAddress::V4() const {
  ESPALIER_CHECK(IsV4(), "address={}", ToString());
  std::uint32_t network_order = 0;
  std::memcpy(&network_order, bytes_.data() + kV4Prefix.size(), sizeof network_order);
  return ntohl(network_order);
}

std::string IpAddress::ToString() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (IsV4()) {
    inet_ntop(AF_INET, bytes_.data() + kV4Prefix.size(), text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, bytes_.data(), text.data(), text.size());
  }
  return text.data();
}

}  // namespace espalier

std::size_t std::hash<espalier::IpAddress>::operator()(
    const espalier::IpAddress& address) const noexcept {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  std::memcpy(&high, address.bytes().data(), sizeof high);
  std::memcpy(&low, address.bytes().data() + sizeof high, sizeof low);
  return static_cast<std::size_t>((high ^ (low * 0x9e3779b97f4a7c15ULL)) * 0xbf58476d1ce4e5b9ULL);
}
