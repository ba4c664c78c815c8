#include "deploy/cli/session/name_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "common/terminal/closest_name.h"
#include "common/terminal/table.h"
#include "deploy/cli/session/controller_names.h"

namespace espalier::cli {
namespace {

constexpr Duration kAskLimit = std::chrono::seconds(2);

// How the controller's messages call what has names.
constexpr std::pair<std::string_view, NameKind> kWords[] = {
    {"link", NameKind::kLink},     {"node", NameKind::kNode},
    {"host", NameKind::kNode},     {"NIC or host", NameKind::kNode},
    {"flow", NameKind::kFlow},     {"job", NameKind::kTreeJob},
    {"agent", NameKind::kAgent},   {"maintenance window", NameKind::kWindow},
    {"policy", NameKind::kPolicy},
};

struct UnknownName {
  NameKind kind;
  std::string name;
};

// What a message such as `there is no link "x" (...)` says is not there.
std::optional<UnknownName> FindUnknownName(std::string_view message) {
  constexpr std::string_view kBegin = "there is no ";
  const std::size_t begin = message.find(kBegin);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view rest = message.substr(begin + kBegin.size());
  for (const auto& [word, kind] : kWords) {
    if (!rest.starts_with(word) || rest.substr(word.size(), 2) != " \"") continue;
    const std::string_view name = rest.substr(word.size() + 2);
    const std::size_t end = name.find('"');
    if (end == std::string_view::npos) return std::nullopt;
    return UnknownName{kind, std::string(name.substr(0, end))};
  }
  return std::nullopt;
}

// Only the letters and digits, without regard to case.
std::string Letters(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) continue;
    letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

}  // namespace

std::string MeantName(std::string_view word, std::span<const std::string> names) {
  const std::string letters = Letters(word);
  for (const std::string& name : names) {
    if (letters.empty()) break;
    if (Letters(name) == letters) return name;
    const std::size_t middle = name.find("--");
    if (middle == std::string::npos) continue;
    const std::string_view ends = name;
    if (Letters(ends.substr(middle)) + Letters(ends.substr(0, middle)) == letters) return name;
  }
  return ClosestName(word, names);
}

std::string AddNameHint(const Session& session, const std::string& message) {
  const auto unknown = FindUnknownName(message);
  if (!unknown) return message;
  const auto names = AskNames(session, unknown->kind, "", kAskLimit);
  const std::string meant = MeantName(unknown->name, names);
  std::string hint;
  if (!meant.empty()) {
    hint = fmt::format("did you mean {}?", meant);
  } else if (unknown->kind == NameKind::kNode || unknown->kind == NameKind::kLink) {
    const bool is_node = unknown->kind == NameKind::kNode;
    const auto others =
        AskNames(session, is_node ? NameKind::kLink : NameKind::kNode, unknown->name, kAskLimit);
    if (std::ranges::find(others, unknown->name) == others.end()) return message;
    hint = fmt::format("it is a {}", is_node ? "link" : "node");
  } else {
    return message;
  }
  const std::size_t remedy = message.rfind(" (");
  if (remedy == std::string::npos) return fmt::format("{} ({})", message, hint);
  const std::string_view text = message;
  return fmt::format("{} ({}{} {}", text.substr(0, remedy), hint, hint.ends_with('?') ? "" : ";",
                     text.substr(remedy + 2));
}

void WarnOfUnknownJob(Session& session, const std::string& job) {
  constexpr std::size_t kMostNamed = 8;
  session.is_silent = true;
  const auto jobs = AskPages(session, "/api/v1/jobs", "jobs", /*print_json=*/false);
  const auto started = Ask(session, "GET", "/api/v1/forests", /*print_json=*/false);
  session.is_silent = false;
  if (!jobs || !started) return;  // the action says what is wrong
  std::vector<std::string> names;
  for (const auto& [answer, list] : {std::pair(&*jobs, "jobs"), {&*started, "forests"}}) {
    const io::JsonValue* const rows = answer->Find(list);
    for (const io::JsonValue& row : rows == nullptr ? std::vector<io::JsonValue>{} : rows->items) {
      const io::JsonValue* const name = row.Find("job");
      if (name == nullptr) continue;
      if (name->text == job) return;
      if (IsSafeName(name->text)) names.push_back(name->text);
    }
  }
  const std::string meant = ClosestName(job, names);
  std::string known;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    known += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNamed) known += ", ...";
  fmt::print(stderr, "warning: no job is named \"{}\" now ({}there are: {})\n", EscapeControls(job),
             meant.empty() ? "" : fmt::format("did you mean {}? ", meant),
             known.empty() ? "none" : known);
}

}  // namespace espalier::cli
