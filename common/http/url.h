#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace espalier::io {

// The parsed and percent-decoded target of an HTTP request (RFC 3986; '+' is a space in the query).
// Parsing fails for a broken escape, a decoded NUL byte, and text that does not begin with "/".
struct Url {
  std::string path;
  std::map<std::string, std::string> query;
};
std::optional<Url> ParseUrl(std::string_view target);

}  // namespace espalier::io
