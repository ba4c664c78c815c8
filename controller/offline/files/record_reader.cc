#include "controller/offline/files/record_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace espalier::offline {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlanks = " \t";

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

}  // namespace

RecordReader::RecordReader(std::string_view text, std::string_view file_name, Format format,
                           std::size_t max_field_bytes)
    : text_(text), file_(file_name), format_(format), max_field_bytes_(max_field_bytes) {
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

Result<std::optional<std::span<const Field>>> RecordReader::Next() {
  while (at_ < text_.size()) {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view line = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) continue;
    if (format_ == Format::kColumns && line[begin] == '#') continue;

    fields_.clear();
    unquoted_.clear();
    if (format_ == Format::kColumns) SplitAtBlanks(line);
    if (format_ == Format::kCommas) {
      if (auto split = SplitAtCommas(line); !split) return Propagate(split);
    }
    if (auto checked = CheckFields(); !checked) return Propagate(checked);
    return std::span<const Field>(fields_);
  }
  return std::nullopt;
}

void RecordReader::SplitAtBlanks(std::string_view line) {
  std::size_t begin = line.find_first_not_of(kBlanks);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    fields_.push_back({line.substr(begin, end - begin), line_, static_cast<int>(begin) + 1});
    begin = line.find_first_not_of(kBlanks, end);
  }
}

Result<void> RecordReader::SplitAtCommas(std::string_view line) {
  std::size_t begin = 0;
  for (;;) {
    std::size_t end = std::min(line.find(',', begin), line.size());
    if (begin < line.size() && line[begin] == '"') {
      auto quoted = ReadQuoted(line, begin);
      if (!quoted) return Propagate(quoted);
      end = *quoted;
    } else {
      const Field field{line.substr(begin, end - begin), line_, static_cast<int>(begin) + 1};
      if (field.text.find('"') != std::string_view::npos) {
        return FailAt(field, "a quote inside an unquoted field (quote the whole field)");
      }
      fields_.push_back(field);
    }
    if (end == line.size()) return {};
    begin = end + 1;
  }
}

// Reads the field that begins with the quote at `begin`; returns its end: a comma or the end of the
// line.
Result<std::size_t> RecordReader::ReadQuoted(std::string_view line, std::size_t begin) {
  const Field field{{}, line_, static_cast<int>(begin) + 1};
  std::string& text = unquoted_.emplace_back();
  std::size_t at = begin + 1;
  for (;; ++at) {
    if (at >= line.size()) return FailAt(field, "a quote is not closed on its line");
    if (line[at] == '"') {
      if (at + 1 >= line.size() || line[at + 1] != '"') break;
      ++at;
    }
    text += line[at];
  }
  ++at;
  if (at < line.size() && line[at] != ',') {
    return FailAt({{}, line_, static_cast<int>(at) + 1}, "a comma must follow the closing quote");
  }
  fields_.push_back({text, field.line, field.column});
  return at;
}

Result<void> RecordReader::CheckFields() const {
  for (const Field& field : fields_) {
    if (field.text.size() > max_field_bytes_) {
      return FailAt(field, fmt::format("a field has more than {} bytes", max_field_bytes_));
    }
    if (std::ranges::any_of(field.text, IsControl)) {
      return FailAt(field, "a field has a control character");
    }
  }
  return {};
}

tl::unexpected<Error> RecordReader::FailAt(const Field& field, std::string_view what) const {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}:{}:{}: {}", file_, field.line, field.column, what));
}

Result<std::int64_t> RecordReader::ReadInteger(const Field& field, std::string_view what,
                                               std::int64_t min, std::int64_t max) const {
  std::int64_t value = 0;
  const char* end = field.text.data() + field.text.size();
  const auto parsed = std::from_chars(field.text.data(), end, value);
  if (field.text.empty() || parsed.ec != std::errc() || parsed.ptr != end || value < min ||
      value > max) {
    return FailAt(field, fmt::format("{} is \"{}\" (write a whole number from {} to {})", what,
                                     field.text.substr(0, 40), min, max));
  }
  return value;
}

}  // namespace espalier::offline
