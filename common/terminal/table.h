#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files/json.h"

namespace espalier::cli {

enum class CellFormat {
  kText,
  kBytes,    // of a number of bytes
  kRate,     // of bits per second
  kSeconds,  // of seconds
  kState,    // as text, with a colour on a terminal: UP, DOWN, ROUTED, ...
};

struct Column {
  std::string title;
  std::string key;  // of the member to show; KEY.KEY: of a member of a member
  CellFormat format = CellFormat::kText;
};

// The text with its control characters as \xNN, which a terminal would obey: C0, DEL, and C1 in
// UTF-8, and bytes that are not UTF-8.
std::string EscapeControls(std::string_view text);

// The text of a column's member: as it is in JSON, without control characters, or as people read
// it. Booleans are "yes" and "no"; a member that is absent or empty is "-".
std::string RawText(const io::JsonValue& row, const std::string& key);
std::string CellText(const io::JsonValue& row, const Column& column);

// A row whose members have these keys and texts.
io::JsonValue MakeRow(const std::vector<std::pair<std::string, std::string>>& cells);

// Formats JSON objects as the rows of an aligned table, with numbers at the right, or as CSV (RFC
// 4180) with raw values. `colours`: for a terminal.
std::string FormatTable(const std::vector<Column>& columns, const std::vector<io::JsonValue>& rows,
                        bool colours);
std::string FormatCsv(const std::vector<Column>& columns, const std::vector<io::JsonValue>& rows);
// Prints a table on standard output, with colours if it is a terminal and NO_COLOR is not set.
void PrintTable(const std::vector<Column>& columns, const std::vector<io::JsonValue>& rows);
// Whether text on standard output may have colours.
bool UsesColours();

}  // namespace espalier::cli
