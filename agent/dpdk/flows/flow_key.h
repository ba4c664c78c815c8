#pragma once

#include <cstdint>
#include <cstring>

#include "agent/dpdk/packet/roce_packet.h"
#include "common/base/ip_address.h"

namespace espalier::dpdk {

// Who sends to which queue pair: what all packets of a flow have in common, whatever their port.
struct FlowKey {
  std::uint8_t addresses[32] = {};  // source, destination, as in the packet; IPv4: the first 8
  std::uint32_t number = 0;         // the queue pair's, as in the packet; low byte: 4 or 6

  bool is_v4() const { return (number & 0xFF) == 4; }
  std::uint32_t qpn() const { return Swap32(number & 0xFFFFFF00); }
  IpAddress source() const { return Address(0); }
  IpAddress destination() const { return Address(1); }
  // The same two hosts the other way round, to this queue pair.
  FlowKey Reversed(std::uint32_t qpn) const;
  bool operator==(const FlowKey& other) const {
    return number == other.number && std::memcmp(addresses, other.addresses, 32) == 0;
  }

 private:
  IpAddress Address(int which) const;
};

inline std::uint32_t KeyNumber(const RocePacket& packet) {
  return (Load32(packet.bth() + 4) & 0xFFFFFF00) | (packet.is_v4 ? 4U : 6U);
}

inline FlowKey KeyOf(const RocePacket& packet) {
  FlowKey key{.number = KeyNumber(packet)};
  std::memcpy(key.addresses, packet.ip + (packet.is_v4 ? 12 : 8), packet.is_v4 ? 8 : 32);
  return key;
}

inline bool Matches(const FlowKey& key, const RocePacket& packet) {
  if (key.number != KeyNumber(packet)) return false;
  if (packet.is_v4) return Load64(key.addresses) == Load64(packet.ip + 12);
  std::uint64_t different = 0;
  for (int word = 0; word < 4; ++word) {
    different |= Load64(key.addresses + 8 * word) ^ Load64(packet.ip + 8 + 8 * word);
  }
  return different == 0;
}

// Equal for a key and its packets. The upper bits say where an index looks, the lower half is what
// it compares. Of a number all but the lowest byte counts.
constexpr std::uint64_t kHashFactor = 0x9E37'79B9'7F4A'7C15;
constexpr std::uint64_t kWordsFactor = 0xD6E8'FEB8'6659'FD93;
// All of the words in the lower half too.
inline std::uint64_t Fold(std::uint64_t words) { return words ^ words >> 32; }
inline std::uint64_t HashV4(std::uint64_t addresses, std::uint32_t number) {
  // The number's own spread keeps it apart from the addresses.
  return Fold((addresses ^ (number >> 8) * kHashFactor) * kWordsFactor);
}
inline std::uint64_t HashV6(const std::uint8_t* addresses, std::uint32_t number) {
  const std::uint64_t inner = (Load64(addresses + 8) ^ Load64(addresses + 16)) * kWordsFactor;
  return HashV4(Fold(inner) ^ Load64(addresses) ^ Load64(addresses + 24), number);
}
inline std::uint64_t HashOf(const FlowKey& key) {
  return key.is_v4() ? HashV4(Load64(key.addresses), key.number)
                     : HashV6(key.addresses, key.number);
}
inline std::uint64_t HashOf(const RocePacket& packet) {
  return packet.is_v4 ? HashV4(Load64(packet.ip + 12), KeyNumber(packet))
                      : HashV6(packet.ip + 8, KeyNumber(packet));
}

struct FlowKeyHash {
  std::size_t operator()(const FlowKey& key) const { return HashOf(key); }
};

}  // namespace espalier::dpdk
