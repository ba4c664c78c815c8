#include "agent/dpdk/packet/source_port.h"

#include <array>
#include <bit>

namespace espalier::dpdk {
namespace {

// The reflected polynomial: the highest power of x is bit 0.
constexpr std::uint32_t kPolynomial = 0xEDB88320;

constexpr std::uint32_t TimesX(std::uint32_t value) {
  return (value >> 1) ^ ((value & 1U) != 0 ? kPolynomial : 0U);
}

std::uint32_t TimesXToThe(int power, std::uint32_t value) {
  for (; power > 0; --power) value = TimesX(value);
  return value;
}

std::uint32_t Product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x8000'0000U; bit != 0; bit >>= 1, a = TimesX(a)) {
    if ((b & bit) != 0) product ^= a;
  }
  return product;
}

// Returns the CRC of the two bytes alone if only this bit of the (little-endian) word is set.
std::uint32_t OfBit(int bit) { return TimesXToThe(16, std::uint32_t{1} << bit); }

// Returns the number of bytes between the port and the CRC.
constexpr std::uint32_t BytesBehind(std::uint32_t udp_bytes) { return udp_bytes - 4 - 2; }

}  // namespace

IcrcPatch::IcrcPatch() : tables_(kTabledBytes / 4) {
  std::array<std::uint32_t, 16> bits{};
  std::uint32_t length = 8;
  for (int bit = 0; bit < 16; ++bit) {
    bits[static_cast<std::size_t>(bit)] =
        TimesXToThe(8 * static_cast<int>(BytesBehind(length)), OfBit(bit));
  }
  for (; length < kTabledBytes; length += 4) {
    Tables& tables = tables_[length / 4];
    for (std::size_t value = 1; value < 256; ++value) {
      const auto lowest = static_cast<std::size_t>(std::countr_zero(value));
      const std::size_t others = value & (value - 1);
      tables.first[value] = tables.first[others] ^ bits[lowest];
      tables.second[value] = tables.second[others] ^ bits[8 + lowest];
    }
    for (std::uint32_t& bit : bits) bit = TimesXToThe(32, bit);
  }
}

std::uint32_t IcrcPatch::SlowDifference(std::uint16_t difference, std::uint32_t udp_bytes) {
  std::uint32_t sum = 0;
  for (int bit = 0; bit < 16; ++bit) {
    if ((difference >> bit & 1U) != 0) sum ^= OfBit(bit);
  }
  // Multiplies by x^(8 n), by repeated squaring; the polynomial 1 is the highest bit.
  std::uint32_t power = TimesXToThe(8, 0x8000'0000U);
  for (std::uint32_t n = BytesBehind(udp_bytes); n != 0; n >>= 1, power = Product(power, power)) {
    if ((n & 1U) != 0) sum = Product(sum, power);
  }
  return sum;
}

}  // namespace espalier::dpdk
