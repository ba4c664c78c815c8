#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/address/ip_address.h"
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
  std::uint32_t destination_qpn = 0;  // only if the fabric hashes it
};

// The function by which one switch, or a NIC with several uplinks, chooses among equal next hops: a
// pure function of the tuple.
class EcmpHash {
 public:
  virtual ~EcmpHash() = default;
  // Returns the index of the packet's next hop among `members` equal ones, in the switch's own
  // order. members > 0.
  virtual std::size_t Choose(const FlowTuple& tuple, std::size_t members) const = 0;
  // For a linear hash (CRC, XOR, Toeplitz), the value V whose remainder by the number of members is
  // the choice; else none. V(x ^ d) = V(x) ^ V(d) ^ V(0) for changes d of the source port, so 15
  // values give those of all ports. For a group of a power of two, choices are linear as well.
  virtual std::optional<std::uint32_t> LinearValue(const FlowTuple& tuple) const = 0;
};

// Creates a hash of the catalogue: "linux" (fib_multipath_hash_policy 3 with fields 0x33),
// "linux-l4" (0x37), "crc16-ccitt", "crc16-bisync", "crc32", "crc32-high", "xor8", "xor16",
// "jenkins", "toeplitz", "bond-layer3+4" (of a Linux bond; seed 0), ...
// Errors: kNotFound for an unknown name, with the known ones; kInvalidArgument for a seed out of
// range.
Result<std::unique_ptr<EcmpHash>> MakeEcmpHash(const EcmpSpec& spec);
// The hash of a switch, or of a NIC with several uplinks: there the Linux hashes are those of
// packets that a host sends itself (MakeLinuxSenderHash). The node must have a spec. Errors: as
// above.
Result<std::unique_ptr<EcmpHash>> MakeHashOf(const Node& node);

}  // namespace espalier::fabric
