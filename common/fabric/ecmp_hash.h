#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::fabric {

// The header fields that switches hash.
struct FlowTuple {
  IpAddress source;
  IpAddress destination;
  std::uint8_t protocol = 17;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 4791;
  std::uint32_t destination_qpn = 0;  // only where the fabric hashes it
};

// One switch's choice among equal next hops: a pure function of the tuple.
class EcmpHash {
 public:
  virtual ~EcmpHash() = default;
  // Which of `members` equal next hops (in the switch's own order) takes the packet. members > 0.
  virtual std::size_t Choose(const FlowTuple& tuple, std::size_t members) const = 0;
  // True where H(x ^ d) = H(x) ^ H(d) ^ H(0) for port changes d and a power-of-two group, so
  // that one observation predicts all ports (CRC, XOR).
  virtual bool IsLinear() const = 0;
};

// The catalogue: "linux" (fib_multipath_hash_policy 3 with fields 0x33), "linux-l4" (0x37),
// "crc16-ccitt", "crc16-bisync", "crc32", "crc32-high", "xor8", "xor16", "jenkins", "toeplitz", ...
// Errors: kNotFound for a name not in it, with those that are.
Result<std::unique_ptr<EcmpHash>> MakeEcmpHash(const EcmpSpec& spec);
std::span<const std::string_view> EcmpHashNames();

}  // namespace espalier::fabric
