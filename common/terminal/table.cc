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

std::string Quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

}  // namespace

std::string EscapeControls(std::string_view text) {
  std::string escaped;
  std::size_t left = 0;  // bytes of the present character that follow
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool continues = byte >= 0x80 && byte < 0xC0;
    const bool is_stray = continues && left == 0;
    left = continues && left > 0 ? left - 1
           : byte >= 0xF0        ? 3U
           : byte >= 0xE0        ? 2U
           : byte >= 0xC0        ? 1U
                                 : 0U;
    const bool begins_c1 = byte == 0xC2 && at + 1 < text.size() &&
                           static_cast<unsigned char>(text[at + 1]) >= 0x80 &&
                           static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if (begins_c1) left = 0;  // its second byte is escaped like a stray one
    if (byte < 0x20 || byte == 0x7F || is_stray) {
      escaped += fmt::format("\\x{:02x}", byte);
    } else if (!begins_c1) {
      escaped += text[at];
    }
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
      text += (i == 0 ? "" : ",") + Quoted(cell_of(columns[i]));
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
