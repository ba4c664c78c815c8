#include "common/terminal/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace espalier::cli {
namespace {

// "KEY.KEY": of a member of a member.
std::string CellText(const io::JsonValue& row, const std::string& key) {
  const std::size_t dot = key.find('.');
  const io::JsonValue* value = row.Find(key.substr(0, dot));
  if (value == nullptr) return "-";
  if (dot != std::string::npos) return CellText(*value, key.substr(dot + 1));
  if (value->kind == io::JsonValue::Kind::kBool) return value->boolean ? "yes" : "no";
  return value->text.empty() ? "-" : value->text;
}

}  // namespace

void PrintTable(const std::vector<Column>& columns, const std::vector<io::JsonValue>& rows) {
  std::vector<std::size_t> widths;
  for (const Column& column : columns) {
    std::size_t width = column.title.size();
    for (const io::JsonValue& row : rows) {
      width = std::max(width, CellText(row, column.key).size());
    }
    widths.push_back(width);
  }
  std::string text;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    text += fmt::format("{:{}}  ", columns[i].title, widths[i]);
  }
  text += '\n';
  for (const io::JsonValue& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      text += fmt::format("{:{}}  ", CellText(row, columns[i].key), widths[i]);
    }
    text += '\n';
  }
  std::fputs(text.c_str(), stdout);
}

}  // namespace espalier::cli
