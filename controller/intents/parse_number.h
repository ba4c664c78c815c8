#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace espalier::controller {

// Parses a text that is one decimal integer of this type and nothing else.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

}  // namespace espalier::controller
