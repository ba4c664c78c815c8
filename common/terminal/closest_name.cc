#include "common/terminal/closest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace espalier::cli {
namespace {

// The number of insertions, deletions and replacements of characters that turn one text into the
// other (Levenshtein).
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

}  // namespace

std::string ClosestName(std::string_view word, std::span<const std::string> names) {
  constexpr std::size_t kTooMany = 3;
  std::string best;
  std::size_t least = std::min(kTooMany, word.size());
  for (const std::string& name : names) {
    const bool is_beginning = word.size() >= 3 && name.starts_with(word);
    const std::size_t distance = is_beginning ? 1 : Distance(word, name);
    if (distance >= least) continue;
    least = distance;
    best = name;
  }
  return best;
}

}  // namespace espalier::cli
