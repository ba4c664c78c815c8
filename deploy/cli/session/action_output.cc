#include "deploy/cli/session/action_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/terminal/table.h"
#include "deploy/cli/session/intent_words.h"

namespace espalier::cli {
namespace {

std::string TextIn(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const found = object.Find(key);
  return found == nullptr ? "" : EscapeControls(found->text);
}

// 0 for a field that an older controller does not have.
std::int64_t NumberIn(const io::JsonValue& object, std::string_view key) {
  return std::strtoll(TextIn(object, key).c_str(), nullptr, 10);
}

bool IsTrue(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const found = object.Find(key);
  return found != nullptr && found->boolean;
}

std::string Count(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void PrintIntents(const io::JsonValue& answer, bool is_dry_run) {
  const io::JsonValue* const intents = answer.Find("intents");
  if (intents == nullptr) return;
  for (const io::JsonValue& intent : intents->items) {
    const std::string change = TextIn(intent, "change");
    const std::string_view verb = change == "ADDED"     ? (is_dry_run ? "would add" : "added")
                                  : change == "REMOVED" ? (is_dry_run ? "would remove" : "removed")
                                                        : (is_dry_run ? "would change" : "changed");
    std::string details;
    const auto add = [&](std::string_view name, std::string_view key) {
      const std::string text = TextIn(intent, key);
      if (!text.empty()) details += fmt::format("{}{} {}", details.empty() ? "" : ", ", name, text);
    };
    const std::string value = IntentWords(intent);
    const bool has_label = TextIn(intent, "what") != "maintenance";
    if (!value.empty()) details = (has_label ? "value " : "") + value;
    add("until", "until");
    add("by", "actor");
    add("reason:", "reason");
    fmt::print("{}: {} {} ({})\n", verb, TextIn(intent, "what"), TextIn(intent, "id"), details);
  }
}

// "max load 4 (before: 4), bound 4: no assignment of these flows has less"
void PrintLoads(const io::JsonValue& answer) {
  if (answer.Find("max_load") == nullptr) return;
  fmt::print("max load {} (before: {}), bound {}{}\n", TextIn(answer, "max_load"),
             TextIn(answer, "max_load_before"), TextIn(answer, "lower_bound"),
             IsTrue(answer, "optimal") ? ": no assignment of these flows has less" : "");
}

void PrintCutOff(const io::JsonValue& answer) {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  const auto print = [&](std::string_view key, std::string_view what, bool is_bad) {
    const std::int64_t now = NumberIn(answer, key);
    const std::int64_t before = NumberIn(answer, std::string(key) + "_before");
    if (now == 0 && before == 0) return;
    const bool is_red = is_terminal && is_bad && now > 0;
    fmt::print("{}{} {} (before: {}){}\n", is_red ? "\x1b[1;31m" : "", Count(now, "flow"), what,
               before, is_red ? "\x1b[0m" : "");
  };
  print("without_path", "without any usable path", true);
  print("on_dead_links", "on links that are down", true);
  print("on_drained_links", "on drained links", false);
}

}  // namespace

std::int64_t CountNewlyCutOff(const io::JsonValue& answer) {
  const auto growth = [&](std::string_view key) {
    return NumberIn(answer, key) - NumberIn(answer, std::string(key) + "_before");
  };
  return std::max<std::int64_t>(0, growth("without_path") + growth("on_dead_links"));
}

void PrintOutcome(const io::JsonValue& answer) {
  const bool is_dry_run = IsTrue(answer, "dry_run");
  if (const io::JsonValue* moves = answer.Find("moves"); moves && !moves->items.empty()) {
    PrintTable({{"FLOW", "flow"}, {"JOB", "job"}, {"FROM", "from"}, {"TO", "to"}}, moves->items);
  }
  PrintIntents(answer, is_dry_run);
  fmt::print("{} {} with {} bytes in flight (topology version {})\n",
             is_dry_run ? "would move" : "moved", Count(NumberIn(answer, "moved"), "flow"),
             TextIn(answer, "moved_bytes"), TextIn(answer, "version"));
  if (const std::int64_t forests = NumberIn(answer, "forests"); forests > 0) {
    fmt::print("{} {} (see `espalier job list`)\n", is_dry_run ? "would recompute" : "recomputes",
               Count(forests, "forest"));
  }
  PrintLoads(answer);
  PrintCutOff(answer);
  if (const std::string question = TextIn(answer, "question"); !question.empty()) {
    fmt::print("{}: confirm it with --force\n", question);
  }
}

}  // namespace espalier::cli
