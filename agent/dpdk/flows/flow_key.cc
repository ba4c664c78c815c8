#include "agent/dpdk/flows/flow_key.h"

#include <algorithm>

namespace espalier::dpdk {

IpAddress FlowKey::Address(int which) const {
  if (is_v4()) return IpAddress::FromV4(LoadBig32(addresses + 4 * which));
  IpAddress::Bytes bytes;
  std::copy_n(addresses + 16 * which, bytes.size(), bytes.begin());
  return IpAddress(bytes);
}

FlowKey FlowKey::Reversed(std::uint32_t qpn) const {
  const std::ptrdiff_t bytes = is_v4() ? 4 : 16;
  FlowKey reversed{.number = Swap32(qpn) | (number & 0xFF)};
  std::copy_n(addresses + bytes, bytes, reversed.addresses);
  std::copy_n(addresses, bytes, reversed.addresses + bytes);
  return reversed;
}

}  // namespace espalier::dpdk
