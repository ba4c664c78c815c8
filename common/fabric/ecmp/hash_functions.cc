#include "common/fabric/ecmp/hash_functions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "common/base/check.h"

namespace espalier::fabric {
namespace {

std::uint64_t LittleEndian(ByteView bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
  return value;
}

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void Round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }

  void Absorb(std::uint64_t word) {
    v3 ^= word;
    Round();
    Round();
    v0 ^= word;
  }
};

// A CRC register of type `Word` that shifts right, so generators are bit-reversed.
template <typename Word>
Word ReflectedCrc(Word reversed_generator, Word crc, ByteView bytes) {
  for (const std::uint8_t byte : bytes) {
    crc = static_cast<Word>(crc ^ byte);
    for (int bit = 0; bit < 8; ++bit) {
      const bool carry = (crc & 1U) != 0;
      crc = static_cast<Word>(crc >> 1);
      if (carry) crc = static_cast<Word>(crc ^ reversed_generator);
    }
  }
  return crc;
}

struct JenkinsState {
  std::uint32_t a, b, c;

  void Mix() {
    a = (a - c) ^ std::rotl(c, 4);
    c += b;
    b = (b - a) ^ std::rotl(a, 6);
    a += c;
    c = (c - b) ^ std::rotl(b, 8);
    b += a;
    a = (a - c) ^ std::rotl(c, 16);
    c += b;
    b = (b - a) ^ std::rotl(a, 19);
    a += c;
    c = (c - b) ^ std::rotl(b, 4);
    b += a;
  }

  void Finish() {
    c = (c ^ b) - std::rotl(b, 14);
    a = (a ^ c) - std::rotl(c, 11);
    b = (b ^ a) - std::rotl(a, 25);
    c = (c ^ b) - std::rotl(b, 16);
    a = (a ^ c) - std::rotl(c, 4);
    b = (b ^ a) - std::rotl(a, 14);
    c = (c ^ b) - std::rotl(b, 24);
  }

  // Adds up to twelve bytes; missing ones count as zeros.
  void Add(ByteView bytes) {
    const auto word = [&](std::size_t at) {
      if (at >= bytes.size()) return std::uint32_t{0};
      const std::size_t length = std::min<std::size_t>(4, bytes.size() - at);
      return static_cast<std::uint32_t>(LittleEndian(bytes.subspan(at, length)));
    };
    a += word(0);
    b += word(4);
    c += word(8);
  }
};

constexpr std::uint32_t kJenkinsStart = 0xdeadbeef;

constexpr std::array<std::uint8_t, 40> kToeplitzKey = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

}  // namespace

std::uint64_t SipHash24(std::uint64_t key0, std::uint64_t key1, ByteView bytes) {
  SipState state{key0 ^ 0x736f6d6570736575, key1 ^ 0x646f72616e646f6d, key0 ^ 0x6c7967656e657261,
                 key1 ^ 0x7465646279746573};
  const std::uint64_t length_byte = std::uint64_t{bytes.size() & 0xff} << 56;
  while (bytes.size() >= 8) {
    state.Absorb(LittleEndian(bytes.first(8)));
    bytes = bytes.subspan(8);
  }
  state.Absorb(LittleEndian(bytes) | length_byte);
  state.v2 ^= 0xff;
  for (int round = 0; round < 4; ++round) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

std::uint16_t Crc16Ccitt(std::uint16_t initial, ByteView bytes) {
  std::uint32_t crc = initial;
  for (const std::uint8_t byte : bytes) {
    crc ^= std::uint32_t{byte} << 8;
    for (int bit = 0; bit < 8; ++bit) {
      const bool carry = (crc & 0x8000) != 0;
      crc = (crc << 1) & 0xffff;
      if (carry) crc ^= 0x1021;
    }
  }
  return static_cast<std::uint16_t>(crc);
}

std::uint16_t Crc16Bisync(std::uint16_t initial, ByteView bytes) {
  return ReflectedCrc<std::uint16_t>(0xa001, initial, bytes);
}

std::uint32_t Crc32(std::uint32_t initial, ByteView bytes) {
  return ReflectedCrc<std::uint32_t>(0xedb88320, initial, bytes);
}

std::uint16_t XorFold16(ByteView bytes) {
  unsigned fold = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    fold ^= i % 2 == 0 ? unsigned{bytes[i]} << 8 : unsigned{bytes[i]};
  }
  return static_cast<std::uint16_t>(fold);
}

std::uint32_t XorFold32(ByteView bytes) {
  std::uint32_t fold = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) fold ^= std::uint32_t{bytes[i]} << 8 * (i % 4);
  return fold;
}

std::uint32_t JenkinsLookup3(std::uint32_t initial, ByteView bytes) {
  const std::uint32_t start = kJenkinsStart + static_cast<std::uint32_t>(bytes.size()) + initial;
  JenkinsState state{start, start, start};
  while (bytes.size() > 12) {
    state.Add(bytes.first(12));
    state.Mix();
    bytes = bytes.subspan(12);
  }
  if (bytes.empty()) return state.c;
  state.Add(bytes);
  state.Finish();
  return state.c;
}

std::uint32_t JenkinsTwoWords(std::uint32_t first, std::uint32_t second, std::uint32_t initial) {
  const std::uint32_t start = kJenkinsStart + 8 + initial;
  JenkinsState state{first + start, second + start, start};
  state.Finish();
  return state.c;
}

std::uint32_t Toeplitz(ByteView bytes) {
  ESPALIER_CHECK(bytes.size() + 4 <= kToeplitzKey.size(), "bytes={}", bytes.size());
  // A window of 40 key bits from the current byte on; each set bit of the input XORs the 32 key
  // bits from its own position on into the hash.
  std::uint32_t hash = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::uint64_t window = 0;
    for (std::size_t k = 0; k < 5; ++k) {
      window = window << 8 | (i + k < kToeplitzKey.size() ? kToeplitzKey[i + k] : 0U);
    }
    for (int bit = 0; bit < 8; ++bit) {
      if ((bytes[i] >> (7 - bit) & 1) != 0) hash ^= static_cast<std::uint32_t>(window >> (8 - bit));
    }
  }
  return hash;
}

}  // namespace espalier::fabric
