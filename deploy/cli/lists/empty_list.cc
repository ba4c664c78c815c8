#include "deploy/cli/lists/empty_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstddef>

#include "common/terminal/closest_name.h"
#include "common/terminal/table.h"
#include "deploy/cli/lists/list_view.h"

namespace espalier::cli {
namespace {

// The different values of these members, in natural order.
std::vector<std::string> ValuesOf(const std::vector<io::JsonValue>& rows,
                                  const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  for (const io::JsonValue& row : rows) {
    for (const std::string& key : keys) values.push_back(RawText(row, key));
  }
  const auto is_before = [](const std::string& a, const std::string& b) {
    return CompareNaturally(a, b) < 0;
  };
  std::ranges::sort(values, is_before);
  const auto repeated = std::ranges::unique(values);
  values.erase(repeated.begin(), repeated.end());
  std::erase(values, "-");
  return values;
}

std::string Named(const std::vector<std::string>& values) {
  constexpr std::size_t kMostNamed = 8;
  const std::size_t shown = std::min(values.size(), kMostNamed);
  std::string text =
      fmt::format("{}", fmt::join(values.begin(), values.begin() + static_cast<long>(shown), ", "));
  if (values.size() > shown) text += fmt::format(" and {} more", values.size() - shown);
  return text;
}

}  // namespace

std::string WhyEmpty(const ListSpec& spec, const std::vector<std::string>& patterns, bool only_down,
                     const std::vector<io::JsonValue>& rows) {
  std::string given;
  for (std::size_t i = 0; i < spec.filters.size(); ++i) {
    if (patterns[i].empty()) continue;
    const ListFilter& filter = spec.filters[i];
    const std::string option = fmt::format("{} {}", filter.option, EscapeControls(patterns[i]));
    given += (given.empty() ? "" : " and ") + option;
    const bool matches = filter.keys.empty() || std::ranges::any_of(rows, [&](const auto& row) {
                           return Matches(row, filter.keys, patterns[i]);
                         });
    if (matches) continue;
    const std::vector<std::string> values = ValuesOf(rows, filter.keys);
    if (values.empty()) return fmt::format("{} matches nothing: the list is empty", option);
    const bool is_pattern = patterns[i].find_first_of("*?[") != std::string::npos;
    const std::string meant = is_pattern ? "" : ClosestName(patterns[i], values);
    return fmt::format("{} matches nothing ({}there are: {})", option,
                       meant.empty() ? "" : fmt::format("did you mean {}? ", meant), Named(values));
  }
  if (rows.empty() && given.empty()) return "the list is empty";
  if (only_down)
    return given.empty() ? "no row is down" : fmt::format("no row with {} is down", given);
  return given.empty() ? "no row is that recent" : fmt::format("no row matches {}", given);
}

std::string CheckPattern(const std::string& pattern, const std::vector<std::string>& values) {
  const bool matches = std::ranges::any_of(values, [&](const std::string& value) {
    return ::fnmatch(pattern.c_str(), value.c_str(), FNM_CASEFOLD) == 0;
  });
  if (matches) return "";
  return fmt::format("\"{}\" is none of {}", EscapeControls(pattern), fmt::join(values, ", "));
}

}  // namespace espalier::cli
