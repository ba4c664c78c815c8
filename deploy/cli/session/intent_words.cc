#include "deploy/cli/session/intent_words.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>

#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

std::string TextOf(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const found = object.Find(key);
  return found == nullptr ? "" : EscapeControls(found->text);
}

}  // namespace

std::string IntentWords(const io::JsonValue& intent) {
  const std::string value = TextOf(intent, "value");
  if (TextOf(intent, "what") != "maintenance") return value;
  std::istringstream words(value);
  std::string from;
  std::string kind;
  std::string state;
  std::string check;
  std::string id;
  words >> from >> kind >> state >> check;
  std::getline(words >> std::ws, id);
  const bool is_window = (state == "waiting" || state == "begun") &&
                         (check == "checked" || check == "forced") && !id.empty();
  if (!is_window) return value;
  return fmt::format("drain {} {} from {}{}{}", kind, id, from, state == "begun" ? ", begun" : "",
                     check == "forced" ? ", even if it cuts off flows" : "");
}

}  // namespace espalier::cli
