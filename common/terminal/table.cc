#include "common/terminal/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace espalier::cli {
namespace {

std::string CellText(const io::JsonValue& row, const std::string& key) {
  const io::JsonValue* value = row.Find(key);
  if (value == nullptr) return "-";
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
