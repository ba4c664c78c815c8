#pragma once

#include <cstdint>
#include <cstring>

#include "agent/dpdk/packet/roce_packet.h"
#include "common/base/address/ip_address.h"

namespace espalier::dpdk {

// Which packets of a queue pair carry the flow's bytes and advance its PSN.
enum class FlowKind : std::uint8_t {
  kRequests,   // WRITE, SEND
  kResponses,  // READ responses, which the other end has requested
  kAnswers,    // none: it sends acknowledgements, READ requests, and messages of one packet at most
};

// Identifies a flow by its addresses and destination queue pair, independent of ports.
struct FlowKey {
  std::uint8_t addresses[32] = {};  // source and destination as in packets; IPv4: 8 bytes
  std::uint32_t number = 0;         // queue pair as in packets; low byte: IP version, 4 or 6

  bool is_v4() const { return (number & 0xFF) == 4; }
  std::uint32_t qpn() const { return Swap32(number & 0xFFFFFF00); }
  IpAddress source() const { return Address(0); }
  IpAddress destination() const { return Address(1); }
  // Returns the key with source and destination swapped, and this queue pair.
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

// Hashes are equal for a key and its packets. An index uses the upper bits as position, and
// compares the lower half. The lowest byte of `number` does not count.
constexpr std::uint64_t kHashFactor = 0x9E37'79B9'7F4A'7C15;
constexpr std::uint64_t kWordsFactor = 0xD6E8'FEB8'6659'FD93;
// Makes the lower half depend on all bits.
inline std::uint64_t Fold(std::uint64_t words) { return words ^ words >> 32; }
inline std::uint64_t HashV4(std::uint64_t addresses, std::uint32_t number) {
  // A multiplication of its own keeps the number from cancelling bits of the addresses.
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
