#pragma once

#include <cstdint>
#include <string_view>

namespace espalier::fabric {

// Returns the token of a packet of a probe train (wire::TrainOrder): SipHash-2-4 under the train's
// key of 16 bytes over its number (8 bytes, little-endian) and the packet's index (1 byte). A
// receiver that does not know the key can neither make nor guess the token of a packet that it has
// not received.
// Requires: a key of 16 bytes. Thread-safe.
std::uint64_t TrainToken(std::string_view key, std::uint64_t number, std::uint8_t index);

}  // namespace espalier::fabric
