#include "deploy/cli/operator/spread_text.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

namespace espalier::cli {

namespace {

std::string FieldIn(const io::JsonValue& answer, std::string_view key) {
  const io::JsonValue* const value = answer.Find(key);
  return value == nullptr ? "" : value->text;
}

bool HoldsIn(const io::JsonValue& answer, std::string_view key) {
  const io::JsonValue* const value = answer.Find(key);
  return value != nullptr && value->boolean;
}

}  // namespace

std::string DescribeSpread(const io::JsonValue& answer) {
  const io::JsonValue* const most = answer.Find("max_load");
  const io::JsonValue* const bound = answer.Find("lower_bound");
  const io::JsonValue* const theorem = answer.Find("theorem");
  if (most == nullptr || bound == nullptr || theorem == nullptr) return "";
  const bool has_theorem = !theorem->text.empty();
  const bool are_phases_known = FieldIn(answer, "load_of") == "BUSIEST_PHASES";
  const std::string carries = fmt::format(
      "The busiest link of the fabric carries {} {}", most->text,
      are_phases_known ? "in the busiest phases of the jobs" : "when all open flows send at once");
  if (HoldsIn(answer, "optimal")) {
    const std::string count = FieldIn(answer, "flows_compared");
    return fmt::format("{}. No assignment of {} has less{}.\n", carries,
                       count == "1" ? "this flow" : "these " + count + " flows",
                       has_theorem ? " (" + theorem->text + ")" : "");
  }
  if (most->text == bound->text) {
    return fmt::format("{}. That is no verdict on all flows: {}.\n", carries,
                       HoldsIn(answer, "paths_unreachable")
                           ? "no source port takes some paths"
                           : FieldIn(answer, "flows_left_out") +
                                 " of them are not steered, wait for a port, or are cut off");
  }
  const std::string gap = fmt::format("{}, and the lower bound is {}.\n", carries, bound->text);
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
