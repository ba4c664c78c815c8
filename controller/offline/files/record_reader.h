#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace espalier::offline {

// A field of a text table, with its position.
struct Field {
  std::string_view text;
  int line = 0;    // 1-based
  int column = 0;  // 1-based, in bytes
};

// Reads a text table record by record: comma-separated values (RFC 4180: quotes, "" for a quote
// within; no line breaks in a field) or columns that blanks and tabs separate ('#' begins a
// comment). A byte order mark, CRLF, blank lines and a missing last line end are fine.
// The text must outlive the reader; the fields of a record are valid until the next.
class RecordReader {
 public:
  enum class Format { kCommas, kColumns };
  static constexpr std::size_t kMaxFieldBytes = 255;

  RecordReader(std::string_view text, std::string_view file_name, Format format,
               std::size_t max_field_bytes = kMaxFieldBytes);

  // The fields of the next record; none at the end.
  // Errors: kInvalidArgument "FILE:LINE:COL: what" for bad quotes, control characters, a field
  // of more than max_field_bytes.
  Result<std::optional<std::span<const Field>>> Next();

  // Calls read(fields) -> Result<void> for each remaining record, until a call fails.
  template <typename Read>
  Result<void> ForEach(const Read& read) {
    for (;;) {
      auto record = Next();
      if (!record) return Propagate(record);
      if (!*record) return {};
      if (auto done = read(**record); !done) return done;
    }
  }

  // An error about a field of the present record.
  tl::unexpected<Error> FailAt(const Field& field, std::string_view what) const;
  // Reads a whole number in [min, max] with nothing around it; errors name it `what`.
  Result<std::int64_t> ReadInteger(const Field& field, std::string_view what, std::int64_t min,
                                   std::int64_t max) const;
  int line() const { return line_; }

 private:
  Result<void> SplitAtCommas(std::string_view line);
  Result<std::size_t> ReadQuoted(std::string_view line, std::size_t begin);
  void SplitAtBlanks(std::string_view line);
  Result<void> CheckFields() const;

  std::string_view text_;
  std::string file_;
  Format format_;
  std::size_t max_field_bytes_;
  std::size_t at_ = 0;
  int line_ = 0;
  std::vector<Field> fields_;
  std::deque<std::string> unquoted_;  // the texts of quoted fields, without the quotes
};

}  // namespace espalier::offline
