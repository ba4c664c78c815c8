#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace espalier {

// A message authentication code: HMAC with SHA-256 (RFC 2104, FIPS 180-4).
using Mac = std::array<std::uint8_t, 32>;
// A random number that is used once.
using Nonce = std::array<std::uint8_t, 32>;

// Draws a nonce from the kernel's random number generator. Throws std::system_error if that fails.
Nonce DrawNonce();

// Compares in constant time.
bool IsSame(const Mac& one, const Mac& other);

// The secret of 32 bytes that the ranks of a job share and by which they recognise each other.
// Thread safety: that of a value.
class JobKey {
 public:
  using Bytes = std::array<std::uint8_t, 32>;

  explicit JobKey(const Bytes& bytes) : bytes_(bytes) {}
  static JobKey Draw() { return JobKey(DrawNonce()); }
  // Parses 64 hexadecimal digits, which white space may surround.
  // Errors: kInvalidArgument; the error does not contain the text.
  static Result<JobKey> Parse(std::string_view text);

  // 64 hexadecimal digits.
  std::string ToText() const;
  const Bytes& bytes() const { return bytes_; }
  // Returns the authentication code of the concatenated parts. Codes for different purposes differ,
  // so that none can be used for another purpose. Throws std::bad_alloc.
  Mac Sign(std::string_view purpose, std::initializer_list<std::span<const std::byte>> parts) const;
  // Derives another key, which cannot be computed without this one.
  JobKey Derive(std::string_view purpose, std::string_view context) const;

  bool operator==(const JobKey&) const = default;

 private:
  Bytes bytes_;
};

}  // namespace espalier
