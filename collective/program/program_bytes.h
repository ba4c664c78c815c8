#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collective/program/program.h"
#include "common/base/result.h"

namespace espalier::program {

// Encodes a program for the way from the controller to its ranks: compact and lossless. Numbers are
// unsigned, 7 bits per byte, low ones first, with the eighth bit set on all bytes but the last.
// docs/formats.md gives their order.
inline constexpr std::uint32_t kProgramBytesVersion = 1;  // a whole program
inline constexpr std::uint32_t kProgramPartVersion = 2;   // the part of one rank

// Encodes a program or a part. Linear in the number of steps; about 7 to 10 bytes per step.
std::string EncodeProgram(const Program& program);

// Decodes a program or a part, and checks that the digest of the whole covers the part. Memory
// stays proportional to the bytes (beside at most 4 MiB), whatever they are. Whether the program is
// correct is left to the verifier.
// Errors: kInvalidArgument for bytes that are not exactly one program, or one part, of a known
// version.
Result<Program> DecodeProgram(std::string_view bytes);

// A whole program as bytes, from which every rank gets its own part. Immutable.
class EncodedProgram {
 public:
  EncodedProgram() = default;  // of no ranks
  explicit EncodedProgram(const Program& whole);

  std::size_t ranks() const { return ends_.size(); }
  // As EncodeProgram.
  std::string Whole() const;
  std::size_t WholeBytes() const;
  // The part of a rank, which DecodeProgram reads.
  std::string PartOf(std::size_t rank) const;
  const ProgramDigest& digest() const { return digest_; }
  // The memory that it takes.
  std::size_t MemoryBytes() const;
  bool operator==(const EncodedProgram&) const = default;

 private:
  std::string_view BytesOf(std::size_t rank) const;

  std::string head_;               // what comes before the ranks
  std::vector<std::size_t> ends_;  // by rank, in blocks_
  std::string blocks_;             // of all ranks, one after another
  std::string counts_;             // of the whole: channels and messages
  DigestTree tree_;
  ProgramDigest digest_ = {};
};

}  // namespace espalier::program
