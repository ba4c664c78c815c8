#include "collective/forest/files/byte_stream.h"

namespace espalier::forest {
namespace {

constexpr int kGroupBits = 7;
constexpr std::uint8_t kMore = 0x80;

}  // namespace

void ByteWriter::Number(std::uint64_t value) {
  while (value >= kMore) {
    bytes_.push_back(static_cast<char>((value & (kMore - 1)) | kMore));
    value >>= kGroupBits;
  }
  bytes_.push_back(static_cast<char>(value));
}

void ByteWriter::Wide(Int128 value) {
  Number(static_cast<std::uint64_t>(value));
  Number(static_cast<std::uint64_t>(value >> 64));
}

void ByteWriter::Terms(const Rational& value) {
  Wide(value.numerator());
  Wide(value.denominator());
}

void ByteWriter::Text(std::string_view text) {
  Number(text.size());
  bytes_.append(text);
}

void ByteWriter::Bits(std::uint32_t value, int width) {
  open_bits_ |= std::uint64_t{value} << open_count_;
  for (open_count_ += width; open_count_ >= 8; open_count_ -= 8) {
    bytes_.push_back(static_cast<char>(open_bits_ & 0xFF));
    open_bits_ >>= 8;
  }
}

void ByteWriter::Flush() {
  if (open_count_ > 0) bytes_.push_back(static_cast<char>(open_bits_));
  open_bits_ = 0;
  open_count_ = 0;
}

std::uint8_t ByteReader::Byte() {
  if (offset_ == bytes_.size()) {
    failed_ = true;
    return 0;
  }
  return static_cast<std::uint8_t>(bytes_[offset_++]);
}

std::uint64_t ByteReader::Number() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += kGroupBits) {
    const std::uint8_t byte = Byte();
    const auto bits = static_cast<std::uint64_t>(byte & (kMore - 1));
    if (shift == 63 && bits > 1) break;
    value |= bits << shift;
    if ((byte & kMore) == 0) return failed_ ? 0 : value;
  }
  failed_ = true;
  return 0;
}

std::uint64_t ByteReader::NumberUpTo(std::uint64_t most) {
  const std::uint64_t value = Number();
  if (value <= most) return value;
  failed_ = true;
  return 0;
}

Int128 ByteReader::Wide() {
  const std::uint64_t low = Number();
  const std::uint64_t high = NumberUpTo(~std::uint64_t{0} >> 1);
  return static_cast<Int128>(high) << 64 | static_cast<Int128>(low);
}

Rational ByteReader::Terms() {
  const Int128 numerator = Wide();
  const Int128 denominator = Wide();
  if (denominator == 0) failed_ = true;
  return failed_ ? Rational() : Rational(numerator, denominator);
}

std::string_view ByteReader::Text() {
  const auto size = static_cast<std::size_t>(NumberUpTo(Left()));
  if (size > Left()) {
    failed_ = true;
    return {};
  }
  const std::string_view text = bytes_.substr(offset_, size);
  offset_ += size;
  return text;
}

std::uint32_t ByteReader::Bits(int width) {
  while (open_count_ < width) {
    open_bits_ |= std::uint64_t{Byte()} << open_count_;
    open_count_ += 8;
  }
  const auto value = static_cast<std::uint32_t>(open_bits_ & ((std::uint64_t{1} << width) - 1));
  open_bits_ >>= width;
  open_count_ -= width;
  return value;
}

void ByteReader::SkipToByte() {
  open_bits_ = 0;
  open_count_ = 0;
}

}  // namespace espalier::forest
