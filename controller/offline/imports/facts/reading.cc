#include "controller/offline/imports/facts/reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace espalier::imports {
namespace {

constexpr std::size_t kMaxJsonValues = 8'000'000;
constexpr std::string_view kBlanks = " \t\r";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string At(std::string_view file, Place place) {
  return fmt::format("{}:{}:{}", file, place.line, place.column);
}

tl::unexpected<Error> FailAt(std::string_view file, Place place, std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", At(file, place), what));
}

std::string Quote(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string quoted = "\"";
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    quoted += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return quoted + (text.size() > kMost ? "...\"" : "\"");
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    const std::size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    const bool is_start = first < 0x80 || (first >= 0xc2 && first <= 0xf4);
    if (!is_start || text.size() < length) return false;
    for (const char c : text.substr(1, length - 1)) {
      if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) return false;
    }
    const auto second = length > 1 ? static_cast<unsigned char>(text[1]) : 0;
    const bool is_overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    const bool is_surrogate = first == 0xed && second >= 0xa0;
    const bool is_beyond = first == 0xf4 && second >= 0x90;
    if (is_overlong || is_surrogate || is_beyond) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string NameSome(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    const bool is_last = i + 1 == names.size();
    text += (i == 0 ? "" : is_last ? " and " : ", ") + names[i];
  }
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

Result<BitsPerSecond> ParseRate(std::string_view text) {
  const auto first_other =
      std::ranges::find_if(text, [](char c) { return !IsDigit(c) && c != '.'; });
  const auto length = static_cast<std::size_t>(first_other - text.begin());
  const std::string_view number = text.substr(0, length);
  std::string unit;
  for (const char c : text.substr(length)) {
    if (c != ' ' && unit.size() < 8) unit += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  constexpr std::array<std::string_view, 5> kEndings = {"", "bps", "b", "bit/s", "be"};
  const std::string_view rest = unit.empty() ? "" : std::string_view(unit).substr(1);
  const bool is_known =
      unit.empty() || (std::string_view("gmt").find(unit.front()) != std::string_view::npos &&
                       std::ranges::find(kEndings, rest) != kEndings.end());
  if (!is_known) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not a rate (write it as 100G)", Quote(text)));
  }
  auto rate = ParseGbps(number);
  if (!rate || unit.empty() || unit.front() == 'g') return rate;
  if (unit.front() == 'm') return BitsPerSecond{std::max<std::int64_t>(rate->value / 1000, 1)};
  if (rate->value > INT64_MAX / 1000) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("rate {} is too large", Quote(text)));
  }
  return BitsPerSecond{rate->value * 1000};
}

Result<BitsPerSecond> ParseRateIn(std::string_view text, std::int64_t unit_bps) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end || value <= 0 ||
      value > 9'000'000'000'000'000'000 / unit_bps) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("speed {} is not a positive whole number (write it in {} bit/s)",
                            Quote(text), unit_bps));
  }
  return BitsPerSecond{value * unit_bps};
}

Result<IpAddress> ParseInterfaceAddress(std::string_view text) {
  auto address = IpAddress::Parse(text.substr(0, text.find('/')));
  if (address && !address->IsNone()) return address;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is not an address (write it as 10.0.0.1)", Quote(text)));
}

std::string StemOf(std::string_view file) {
  file = file.substr(file.find_last_of('/') + 1);
  for (const std::string_view ending :
       {".json", ".json0", ".xml", ".txt", ".csv", ".dot", ".properties", ".lldp"}) {
    if (file.ends_with(ending)) file.remove_suffix(ending.size());
  }
  return std::string(file);
}

Result<io::JsonValue> ParseLargeJson(std::string_view text, std::string_view file) {
  // Counts values from above: every one but the first is behind one of these characters.
  const auto values = static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return c == ',' || c == '[' || c == '{'; }));
  if (values > kMaxJsonValues) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}:1:1: more than {} values (split the file)", file, kMaxJsonValues));
  }
  return io::ParseJson(text, file);
}

const io::JsonValue* FindObject(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* value = object.Find(key);
  return value != nullptr && value->kind == io::JsonValue::Kind::kObject ? value : nullptr;
}

const io::JsonValue* FindArray(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* value = object.Find(key);
  return value != nullptr && value->kind == io::JsonValue::Kind::kArray ? value : nullptr;
}

std::string TextOf(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* value = object.Find(key);
  const bool has_text = value != nullptr && (value->kind == io::JsonValue::Kind::kString ||
                                             value->kind == io::JsonValue::Kind::kNumber);
  return has_text ? value->text : "";
}

std::vector<Line> SplitLines(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<Line> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back({line, number});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<Word> SplitWords(const Line& line) {
  std::vector<Word> words;
  for (std::size_t begin = line.text.find_first_not_of(kBlanks); begin < line.text.size();) {
    const std::size_t end = std::min(line.text.find_first_of(kBlanks, begin), line.text.size());
    words.push_back(
        {line.text.substr(begin, end - begin), {line.number, static_cast<int>(begin) + 1}});
    begin = line.text.find_first_not_of(kBlanks, end);
  }
  return words;
}

TextPlaces::TextPlaces(std::string_view text) : size_(text.size()) {
  for (std::size_t at = text.find('\n'); at != std::string_view::npos;
       at = text.find('\n', at + 1)) {
    line_ends_.push_back(at);
  }
}

Place TextPlaces::Of(std::ptrdiff_t offset) const {
  const std::size_t at =
      std::min(size_, static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)));
  const auto line =
      static_cast<std::size_t>(std::ranges::lower_bound(line_ends_, at) - line_ends_.begin());
  const std::size_t begin = line == 0 ? 0 : line_ends_[line - 1] + 1;
  return {static_cast<int>(line) + 1, static_cast<int>(at - begin) + 1};
}

}  // namespace espalier::imports
