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

// An authentication code: HMAC with SHA-256 (RFC 2104, FIPS 180-4).
using Mac = std::array<std::uint8_t, 32>;
// A random number that is used once.
using Nonce = std::array<std::uint8_t, 32>;

// From the kernel's random number generator. Throws std::system_error where that has failed.
Nonce DrawNonce();

// Compares in the same time whatever differs.
bool IsSame(const Mac& one, const Mac& other);

// 32 secret bytes that the ranks of a job share: who has them is one of the job's ranks.
// Thread safety: as a value.
class JobKey {
 public:
  using Bytes = std::array<std::uint8_t, 32>;

  explicit JobKey(const Bytes& bytes) : bytes_(bytes) {}
  static JobKey Draw() { return JobKey(DrawNonce()); }
  // From 64 hexadecimal digits, with white space around them or not.
  // Errors: kInvalidArgument; the text is not repeated in the error.
  static Result<JobKey> Parse(std::string_view text);
  // From 32 bytes as they are. Errors: kInvalidArgument.
  static Result<JobKey> FromBytes(std::string_view bytes);

  // 64 hexadecimal digits.
  std::string ToText() const;
  const Bytes& bytes() const { return bytes_; }
  // The key's code for these parts, one after another. `purpose` tells what the code is for, so
  // that a code for one thing is none for another. Throws std::bad_alloc.
  Mac Sign(std::string_view purpose, std::initializer_list<std::span<const std::byte>> parts) const;
  // Another key, that only those can compute who have this one.
  JobKey Derive(std::string_view purpose, std::string_view context) const;

  bool operator==(const JobKey&) const = default;

 private:
  Bytes bytes_;
};

}  // namespace espalier
