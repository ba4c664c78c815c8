#include "common/http/url.h"

#include <algorithm>
#include <charconv>

namespace espalier::io {
namespace {

std::optional<std::string> Decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  while (!text.empty()) {
    unsigned char byte = static_cast<unsigned char>(text.front());
    std::size_t width = 1;
    if (byte == '%') {
      width = 3;
      if (text.size() < width) return std::nullopt;
      const char* const end = text.data() + width;
      const auto [stop, error] = std::from_chars(text.data() + 1, end, byte, 16);
      if (error != std::errc() || stop != end || byte == 0) return std::nullopt;
    } else if (byte == '+' && plus_is_space) {
      byte = ' ';
    }
    decoded.push_back(static_cast<char>(byte));
    text.remove_prefix(width);
  }
  return decoded;
}

}  // namespace

std::optional<Url> ParseUrl(std::string_view target) {
  if (!target.starts_with('/')) return std::nullopt;
  target = target.substr(0, target.find('#'));
  const std::size_t mark = target.find('?');
  std::optional<std::string> path = Decode(target.substr(0, mark), false);
  if (!path) return std::nullopt;
  Url url;
  url.path = std::move(*path);
  std::string_view rest = mark == target.npos ? std::string_view() : target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    const std::optional<std::string> key = Decode(pair.substr(0, equals), true);
    const std::optional<std::string> value =
        Decode(equals == pair.npos ? std::string_view() : pair.substr(equals + 1), true);
    if (!key || !value) return std::nullopt;
    url.query[*key] = *value;
  }
  return url;
}

}  // namespace espalier::io
