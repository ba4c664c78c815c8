#pragma once

#include <cstdint>
#include <memory>

#include "common/fabric/ecmp/ecmp_hash.h"

namespace espalier::fabric {

// Values of net.ipv{4,6}.fib_multipath_hash_fields: addresses and ports, without (0x33) or with
// (0x37) the protocol.
enum class LinuxHashFields { kNoProtocol, kFiveTuple };

// Chooses as a Linux router of kernel 6.11 or later does for packets that it forwards, with
// fib_multipath_hash_policy 3 and the given, non-zero fib_multipath_hash_seed (one seed serves IPv4
// and IPv6): SipHash-2-4 over the kernel's struct flow_keys, one Jenkins step, then the 31-bit
// range of each next hop. Members are the route's next hops in order, with equal weights.
// tests/common/fabric/linux_ecmp_lab_test.cc checks it against `ip route get`.
std::unique_ptr<EcmpHash> MakeLinuxEcmpHash(std::uint32_t seed, LinuxHashFields fields);
// The same for packets that the host sends itself: without the Jenkins step, and with the protocol
// also for fib_multipath_hash_policy 1.
std::unique_ptr<EcmpHash> MakeLinuxSenderHash(std::uint32_t seed, LinuxHashFields fields);

}  // namespace espalier::fabric
