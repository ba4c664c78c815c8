#pragma once

#include <libmnl/libmnl.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

// Walks netlink messages and their attributes with libmnl; link espalier_netlink. A truncated
// message or attribute, or one with an impossible length, ends the walk.
namespace espalier::netlink {

using Bytes = std::span<const std::byte>;

// Returns whether a whole message is at the beginning of `left` bytes. Not mnl_nlmsg_ok: in libmnl
// 1.0.4 it accepts lengths from 2 GiB on, which it treats as negative.
inline bool IsWhole(const nlmsghdr* message, int left) {
  return left >= static_cast<int>(sizeof(nlmsghdr)) && message->nlmsg_len >= sizeof(nlmsghdr) &&
         message->nlmsg_len <= static_cast<unsigned>(left);
}

// Calls `use` with the header and the payload of each whole message. `bytes` must have the
// alignment of a message.
template <typename Use>
void ForEachMessage(Bytes bytes, const Use& use) {
  auto left = static_cast<int>(bytes.size());
  const auto* message = reinterpret_cast<const nlmsghdr*>(bytes.data());
  for (; IsWhole(message, left); message = mnl_nlmsg_next(message, &left)) {
    const auto* const payload = static_cast<const std::byte*>(mnl_nlmsg_get_payload(message));
    use(*message, Bytes(payload, mnl_nlmsg_get_payload_len(message)));
  }
}

// Calls `use` with the type and the value of each whole attribute.
template <typename Use>
void ForEachAttribute(Bytes bytes, const Use& use) {
  const std::byte* const end = bytes.data() + bytes.size();
  const auto left = [end](const nlattr* attribute) {
    return static_cast<int>(end - reinterpret_cast<const std::byte*>(attribute));
  };
  const auto* attribute = reinterpret_cast<const nlattr*>(bytes.data());
  for (; mnl_attr_ok(attribute, left(attribute)); attribute = mnl_attr_next(attribute)) {
    const auto* const value = static_cast<const std::byte*>(mnl_attr_get_payload(attribute));
    use(mnl_attr_get_type(attribute), Bytes(value, mnl_attr_get_payload_len(attribute)));
  }
}

// Reads an unsigned number of one to four bytes; missing bytes count as zero.
inline std::uint32_t NumberIn(Bytes value) {
  std::uint32_t number = 0;  // little-endian, like the hosts that this is built for
  std::memcpy(&number, value.data(), std::min(value.size(), sizeof(number)));
  return number;
}

// Reads text up to its terminating zero, if it has one.
inline std::string TextIn(Bytes value) {
  const auto* const text = reinterpret_cast<const char*>(value.data());
  return {text, ::strnlen(text, value.size())};
}

}  // namespace espalier::netlink
