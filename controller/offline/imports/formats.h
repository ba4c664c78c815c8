#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// A format of `espalier topology import`. Another one is a row more in formats.cc.
struct Format {
  std::string_view name;
  std::string_view summary;  // begins with a verb
  Result<Cabling> (*read)(std::string_view text, std::string_view file);
};

std::span<const Format> Formats();
const Format* FindFormat(std::string_view name);  // null if there is none

// Reads a file of at most 64 MiB.
// Errors: those of the reader and of io::ReadFile; kResourceExhausted for a larger file.
Result<Cabling> ReadCabling(const Format& format, const std::string& path);

}  // namespace espalier::imports
