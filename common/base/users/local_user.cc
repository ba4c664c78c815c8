#include "common/base/users/local_user.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

namespace espalier {
namespace {

constexpr std::size_t kMaxUserBytes = 32;

bool BeginsUserName(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }
bool GoesOnInUserName(char c) { return BeginsUserName(c) || (c >= '0' && c <= '9') || c == '-'; }

bool IsUserName(std::string_view text) {
  if (text.ends_with('$')) text.remove_suffix(1);
  return !text.empty() && text.size() <= kMaxUserBytes && BeginsUserName(text.front()) &&
         std::ranges::all_of(text, GoesOnInUserName);
}

}  // namespace

bool IsLocalUser(std::string_view text) {
  return IsUserName(text) || LocalUserNumber(text).has_value();
}

std::optional<uid_t> LocalUserNumber(std::string_view text) {
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return is_number && text.size() <= kMaxUserBytes ? std::optional<uid_t>(number) : std::nullopt;
}

}  // namespace espalier
