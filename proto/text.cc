#include "proto/text.h"

#include <algorithm>
#include <cstdint>

namespace espalier::wire {
namespace {

struct Lead {
  std::size_t bytes;       // of the whole character
  std::uint32_t bits;      // of the code point that the first byte holds
  std::uint32_t smallest;  // code point that needs this many bytes
};

// Reads the first byte of a character; returns `bytes` 0 if it cannot start one.
Lead ReadLead(unsigned char byte) {
  if (byte < 0x80) return {1, byte, 0};
  if (byte >= 0xc2 && byte <= 0xdf) return {2, byte & 0x1fU, 0x80};
  if (byte >= 0xe0 && byte <= 0xef) return {3, byte & 0x0fU, 0x800};
  if (byte >= 0xf0 && byte <= 0xf4) return {4, byte & 0x07U, 0x10000};
  return {0, 0, 0};
}

bool IsControl(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029;
}

// Returns the number of bytes of the printable character at the start of text; 0: there is none.
std::size_t PrintableBytes(std::string_view text) {
  const Lead lead = ReadLead(static_cast<unsigned char>(text.front()));
  if (lead.bytes == 0 || lead.bytes > text.size()) return 0;
  std::uint32_t code = lead.bits;
  for (const char c : text.substr(1, lead.bytes - 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0U) != 0x80U) return 0;
    code = (code << 6U) | (byte & 0x3fU);
  }
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < lead.smallest || code > 0x10ffff || is_surrogate || IsControl(code)) return 0;
  return lead.bytes;
}

bool IsPrintableAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace

bool IsPrintable(std::string_view text) {
  if (IsPrintableAscii(text)) return true;
  while (!text.empty()) {
    const std::size_t bytes = PrintableBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string MakePrintable(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes && IsPrintableAscii(text)) return std::string(text);
  std::string printable;
  while (!text.empty()) {
    const std::size_t bytes = PrintableBytes(text);
    const std::string_view character = bytes == 0 ? "?" : text.substr(0, bytes);
    if (printable.size() + character.size() > max_bytes) break;
    printable += character;
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return printable;
}

}  // namespace espalier::wire
