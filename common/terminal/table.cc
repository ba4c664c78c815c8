#include "common/terminal/table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "common/files/csv.h"
#include "common/terminal/units.h"

namespace espalier::cli {
namespace {

struct StateColour {
  std::string_view state;
  std::string_view code;
};
constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::array kStateColours = {
    StateColour{"DOWN", kRed},         StateColour{"UNROUTABLE", kRed},
    StateColour{"REFUSED", kRed},      StateColour{"WITHOUT_PATH", kRed},
    StateColour{"ON_DEAD_LINK", kRed}, StateColour{"DRAINED", kYellow},
    StateColour{"LOSSY", kYellow},     StateColour{"ON_DRAINED_LINK", kYellow},
    StateColour{"LEARNING", kYellow},  StateColour{"PARTIAL", kYellow},
    StateColour{"SILENT", kYellow},    StateColour{"AMBIGUOUS", kYellow},
    StateColour{"COMPLETE", kGreen},   StateColour{"UP", kGreen},
    StateColour{"ROUTED", kGreen},     StateColour{"failed", kRed},
    StateColour{"warning", kYellow},   StateColour{"ok", kGreen}};

std::string_view ColourOf(std::string_view state) {
  const auto* const found = std::ranges::find(kStateColours, state, &StateColour::state);
  return found == kStateColours.end() ? "" : found->code;
}

bool IsNumber(const io::JsonValue& row, const std::string& key) {
  const std::size_t dot = key.find('.');
  const io::JsonValue* const value = row.Find(key.substr(0, dot));
  if (value == nullptr) return true;  // "-" suits any column
  if (dot != std::string::npos) return IsNumber(*value, key.substr(dot + 1));
  return value->kind == io::JsonValue::Kind::kNumber;
}

// The bytes of the UTF-8 character at the beginning (RFC 3629, section 4); 0 if there is none.
std::size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xF0 ? 4U : first >= 0xE0 ? 3U : 2U;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  // Longer than needed, a half of a pair of UTF-16, or beyond the last character.
  const bool is_wrong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
                        (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F);
  return is_wrong ? 0 : bytes;
}

}  // namespace

std::string EscapeControls(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t bytes = std::max<std::size_t>(1, CharacterBytes(text));
    const auto last = static_cast<unsigned char>(text[bytes - 1]);
    const bool is_control =
        bytes == 1 ? last < 0x20 || last >= 0x7F : bytes == 2 && text[0] == '\xC2' && last < 0xA0;
    escaped += is_control ? fmt::format("\\x{:02x}", last) : std::string(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return escaped;
}

std::string RawText(const io::JsonValue& row, const std::string& key) {
  const std::size_t dot = key.find('.');
  const io::JsonValue* const value = row.Find(key.substr(0, dot));
  if (value == nullptr) return "-";
  if (dot != std::string::npos) return RawText(*value, key.substr(dot + 1));
  if (value->kind == io::JsonValue::Kind::kBool) return value->boolean ? "yes" : "no";
  return value->text.empty() ? "-" : EscapeControls(value->text);
}

std::string CellText(const io::JsonValue& row, const Column& column) {
  std::string text = RawText(row, column.key);
  if (column.format == CellFormat::kText || column.format == CellFormat::kState || text == "-") {
    return text;
  }
  const double number = std::strtod(text.c_str(), nullptr);
  if (column.format == CellFormat::kBytes) return FormatBytes(number);
  return column.format == CellFormat::kRate ? FormatRate(number) : FormatSeconds(number);
}

io::JsonValue MakeRow(const std::vector<std::pair<std::string, std::string>>& cells) {
  io::JsonValue row;
  row.kind = io::JsonValue::Kind::kObject;
  for (const auto& [key, text] : cells) {
    io::JsonValue value;
    value.kind = io::JsonValue::Kind::kString;
    value.text = text;
    row.members.emplace_back(key, std::move(value));
  }
  return row;
}

std::string FormatTable(const std::vector<Column>& columns, const std::vector<io::JsonValue>& rows,
                        bool colours) {
  std::vector<std::vector<std::string>> cells;  // by column
  std::vector<std::size_t> widths;
  std::vector<bool> are_numbers;
  for (const Column& column : columns) {
    std::vector<std::string>& texts = cells.emplace_back();
    std::size_t width = column.title.size();
    for (const io::JsonValue& row : rows) {
      width = std::max(width, texts.emplace_back(CellText(row, column)).size());
    }
    widths.push_back(width);
    are_numbers.push_back(!rows.empty() && std::ranges::all_of(rows, [&](const auto& row) {
      return IsNumber(row, column.key);
    }));
  }
  std::string text;
  const auto add_line = [&](const auto& cell_of, bool is_head) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string padding(widths[i] - cell.size(), ' ');
      const std::string_view colour =
          colours && !is_head && columns[i].format == CellFormat::kState ? ColourOf(cell) : "";
      const std::string shown = colour.empty() ? cell : fmt::format("{}{}\x1b[0m", colour, cell);
      line += are_numbers[i] ? padding + shown : shown + padding;
      if (i + 1 < columns.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line([&](std::size_t i) -> const std::string& { return columns[i].title; }, true);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    add_line([&](std::size_t i) -> const std::string& { return cells[i][row]; }, false);
  }
  return text;
}

std::string FormatCsv(const std::vector<Column>& columns, const std::vector<io::JsonValue>& rows) {
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      text += (i == 0 ? "" : ",") + io::CsvField(cell_of(columns[i]));
    }
    text += "\r\n";
  };
  add_line([](const Column& column) { return column.key; });
  for (const io::JsonValue& row : rows) {
    add_line([&](const Column& column) {
      const std::string cell = RawText(row, column.key);
      return cell == "-" ? "" : cell;
    });
  }
  return text;
}

bool UsesColours() {
  const char* const no_colour = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

void PrintTable(const std::vector<Column>& columns, const std::vector<io::JsonValue>& rows) {
  std::fputs(FormatTable(columns, rows, UsesColours()).c_str(), stdout);
}

}  // namespace espalier::cli
