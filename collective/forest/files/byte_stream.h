#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collective/forest/model/rational.h"

namespace espalier::forest {

// Writes whole numbers in as few bytes as they need (7 bits per byte, low ones first), and bit
// fields.
class ByteWriter {
 public:
  void Number(std::uint64_t value);
  void Terms(const Rational& value);  // numerator, then denominator
  void Text(std::string_view text);   // its length, then its bytes
  // Writes fields of `width` bits (1 to 32), low ones first, until Flush fills the last byte.
  void Bits(std::uint32_t value, int width);
  void Flush();

  std::string Take() { return std::move(bytes_); }

 private:
  void Wide(Int128 value);

  std::string bytes_;
  std::uint64_t open_bits_ = 0;
  int open_count_ = 0;
};

// Reads the output of ByteWriter. Past the end, or after a malformed number, every read returns
// zero and Failed() is true.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t Number();
  // Reads a number; fails if it exceeds `most`.
  std::uint64_t NumberUpTo(std::uint64_t most);
  Rational Terms();
  std::string_view Text();
  std::uint32_t Bits(int width);
  void SkipToByte();

  bool Failed() const { return failed_; }
  std::size_t Offset() const { return offset_; }
  std::size_t Left() const { return bytes_.size() - offset_; }

 private:
  Int128 Wide();
  std::uint8_t Byte();

  std::string_view bytes_;
  std::size_t offset_ = 0;
  std::uint64_t open_bits_ = 0;
  int open_count_ = 0;
  bool failed_ = false;
};

}  // namespace espalier::forest
