#pragma once

#include <string>
#include <string_view>

namespace espalier::io {

// Returns a field of comma-separated values (RFC 4180, section 2): in quotes if it has a comma, a
// quote or a line break.
std::string CsvField(std::string_view text);

}  // namespace espalier::io
