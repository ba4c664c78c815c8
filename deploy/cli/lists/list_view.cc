#include "deploy/cli/lists/list_view.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Takes the run of digits, or of other characters, at the front of the text.
std::string_view TakeRun(std::string_view& text) {
  const bool is_number = IsDigit(text.front());
  const auto end = std::ranges::find_if(text, [&](char c) { return IsDigit(c) != is_number; });
  const std::string_view run = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(run.size());
  return run;
}

std::string_view WithoutZeros(std::string_view digits) {
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
}

bool IsNumber(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

}  // namespace

bool Matches(const io::JsonValue& row, const std::vector<std::string>& keys,
             const std::string& pattern) {
  return std::ranges::any_of(keys, [&](const std::string& key) {
    return ::fnmatch(pattern.c_str(), RawText(row, key).c_str(), FNM_CASEFOLD) == 0;
  });
}

std::strong_ordering CompareNaturally(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const std::string_view left = TakeRun(a);
    const std::string_view right = TakeRun(b);
    if (IsDigit(left.front()) && IsDigit(right.front())) {
      const std::string_view x = WithoutZeros(left);
      const std::string_view y = WithoutZeros(right);
      if (x.size() != y.size()) return x.size() <=> y.size();
      if (const auto order = x.compare(y) <=> 0; order != 0) return order;
    } else if (const auto order = left.compare(right) <=> 0; order != 0) {
      return order;
    }
  }
  return a.size() <=> b.size();
}

void SortRows(std::vector<io::JsonValue>& rows, const std::string& key, bool descending) {
  const auto is_before = [&](const io::JsonValue& a, const io::JsonValue& b) {
    const std::string x = RawText(a, key);
    const std::string y = RawText(b, key);
    if (IsNumber(x) && IsNumber(y)) {
      return std::strtod(x.c_str(), nullptr) < std::strtod(y.c_str(), nullptr);
    }
    return CompareNaturally(x, y) < 0;
  };
  if (descending) {
    std::ranges::stable_sort(rows, [&](const auto& a, const auto& b) { return is_before(b, a); });
  } else {
    std::ranges::stable_sort(rows, is_before);
  }
}

Result<WallTime> ParseSince(std::string_view text, WallTime now) {
  Result<WallTime> time = ParseWallTime(text, WallTime{});
  if (!time || text.ends_with('Z')) return time;
  return now - (*time - WallTime{});  // a period
}

std::string OnScreen(const std::string& text) {
  if (::isatty(STDOUT_FILENO) != 1) return text + "\n";  // into a file, one after the other
  return "\x1b[H\x1b[2J\x1b[?7l" + text + "\x1b[?7h";    // without automatic margins (DECAWM)
}

}  // namespace espalier::cli
