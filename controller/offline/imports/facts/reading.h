#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/files/json.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

inline constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxCables = 1'000'000;

// "FILE:LINE:COL".
std::string At(std::string_view file, Place place);
// kInvalidArgument "FILE:LINE:COL: what".
tl::unexpected<Error> FailAt(std::string_view file, Place place, std::string_view what);
// Foreign text for a message: in quotes, at most 60 bytes, control characters as '?'.
std::string Quote(std::string_view text);
// True for text of well-formed UTF-8 (RFC 3629), as topology files must be.
bool IsUtf8(std::string_view text);
// "a, b and c"; after `most` names "and N more".
std::string NameSome(const std::vector<std::string>& names, std::size_t most = 16);

// Parses "100G", "100Gbps", "400GbE", "25000M", "1T", or Gbit/s without a unit.
// Errors: kInvalidArgument without a place.
Result<BitsPerSecond> ParseRate(std::string_view text);
// Parses a whole number of the unit, such as "100000" of 1,000,000 bits per second.
Result<BitsPerSecond> ParseRateIn(std::string_view text, std::int64_t unit_bps);
// Parses an address, with or without "/LENGTH".
Result<IpAddress> ParseInterfaceAddress(std::string_view text);
// The name of a file without folders and without the ending of a format (.json, .lldp.json, .xml,
// .txt, .csv, .dot, .properties).
std::string StemOf(std::string_view file);

// Parses JSON of at most 8 million values, so that 64 MiB of text stay within memory.
Result<io::JsonValue> ParseLargeJson(std::string_view text, std::string_view file);
inline Place PlaceOf(const io::JsonValue& value) { return {value.line, value.column}; }
// A member that is an object or array; null if it is absent or of another kind.
const io::JsonValue* FindObject(const io::JsonValue& object, std::string_view key);
const io::JsonValue* FindArray(const io::JsonValue& object, std::string_view key);
// The text of a member that is a string or a number; empty if it is absent or of another kind.
std::string TextOf(const io::JsonValue& object, std::string_view key);

// A line of a text without its end, and its number.
struct Line {
  std::string_view text;
  int number = 1;
};
std::vector<Line> SplitLines(std::string_view text);

// The parts of a line between blanks, with their columns.
struct Word {
  std::string_view text;
  Place at;
};
std::vector<Word> SplitWords(const Line& line);

// Lines and columns of the offsets in a text, which must outlive it. O(log lines) each.
class TextPlaces {
 public:
  explicit TextPlaces(std::string_view text);
  Place Of(std::ptrdiff_t offset) const;

 private:
  std::size_t size_;
  std::vector<std::size_t> line_ends_;
};

}  // namespace espalier::imports
