#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier::wire {

// True for UTF-8 (RFC 3629) without control characters (C0, DEL, C1, line and paragraph
// separators), which fits a one-line log. Also true for the empty text.
bool IsPrintable(std::string_view text);

// Replaces every invalid byte and control character by '?', and cuts the text to at most max_bytes
// at the end of a character. IsPrintable is true for the result.
std::string MakePrintable(std::string_view text, std::size_t max_bytes);

}  // namespace espalier::wire
