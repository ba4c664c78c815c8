#include "deploy/cli/operator/spread_text.h"

#include <fmt/format.h>

#include <cstddef>

namespace espalier::cli {

std::string DescribeSpread(const io::JsonValue& answer) {
  const io::JsonValue* const most = answer.Find("max_load");
  const io::JsonValue* const bound = answer.Find("lower_bound");
  const io::JsonValue* const theorem = answer.Find("theorem");
  if (most == nullptr || bound == nullptr || theorem == nullptr) return "";
  const bool has_theorem = !theorem->text.empty();
  if (most->text == bound->text) {
    return fmt::format("The busiest link of the fabric carries {}. No assignment has less{}.\n",
                       most->text, has_theorem ? " (" + theorem->text + ")" : "");
  }
  const std::string gap =
      fmt::format("The busiest link of the fabric carries {}, and the lower bound is {}.\n",
                  most->text, bound->text);
  if (has_theorem) {
    return fmt::format("{}`espalier recompute` is sure to reach it: this is {}.\n", gap,
                       theorem->text);
  }
  return gap +
         "No theorem says whether these flows can reach it; `espalier recompute --dry-run` shows "
         "what they can.\n";
}

std::string DescribeUnreachable(const io::JsonValue& answer) {
  constexpr std::size_t kMostNamed = 4;
  const io::JsonValue* const paths = answer.Find("paths");
  if (paths == nullptr) return "";
  std::string named;
  std::size_t count = 0;
  for (const io::JsonValue& path : paths->items) {
    const io::JsonValue* const via = path.Find("via");
    if (path.Find("unreachable") == nullptr || via == nullptr || ++count > kMostNamed) continue;
    named += (named.empty() ? "" : ", ") + via->text;
  }
  if (count == 0) return "";
  return fmt::format(
      "No source port takes {} of its {} paths ({}{}), as switches of two tiers hash alike: give "
      "the tiers\ndifferent hash seeds.\n",
      count, paths->items.size(), named, count > kMostNamed ? ", ..." : "");
}

}  // namespace espalier::cli
