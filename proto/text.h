#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier::wire {

// UTF-8 (RFC 3629) without control characters (C0, DEL, C1, line and paragraph separators): fit
// for a one-line log. The empty text is.
bool IsPrintable(std::string_view text);

// The text with every byte or character that is not fit replaced by '?', cut to at most max_bytes
// at a character's end. IsPrintable holds for what it returns.
std::string MakePrintable(std::string_view text, std::size_t max_bytes);

}  // namespace espalier::wire
