#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace espalier::io {

// The target of an HTTP request, taken apart and percent-decoded (RFC 3986; '+' is a space in
// the query). None where an escape is broken, a decoded byte is NUL, or it is not "/...".
struct Url {
  std::string path;
  std::map<std::string, std::string> query;
};
std::optional<Url> ParseUrl(std::string_view target);

}  // namespace espalier::io
