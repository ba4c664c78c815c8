#include "controller/intents/intent_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/users/local_user.h"
#include "controller/intents/parse_number.h"

namespace espalier::controller {
namespace {

constexpr std::string_view kUserWord = "user=";

std::string Format(std::monostate) { return ""; }
std::string Format(const StartedJob& job) {
  const JobSpec& spec = job.spec;
  std::string text = fmt::format("{} {} {}{}", forest::CollectiveName(spec.collective), spec.bytes,
                                 spec.offload ? "offload" : "inline", spec.verbs ? " verbs" : "");
  if (!spec.user.empty()) text += fmt::format(" {}{}", kUserWord, spec.user);
  for (const std::uint16_t port : job.listen_ports) text += fmt::format(" {}", port);
  text += '\n';
  for (const std::string& rank : spec.ranks) text += rank + "\n";
  return text;
}
std::string Format(const JobWeight& weight) { return fmt::format("{}", weight.value); }
std::string Format(const PolicyValue& policy) { return FormatPolicy(policy); }
std::string Format(const SteeringSetting& steering) {
  if (steering.percent == 0) return "off";
  return steering.percent >= 100 ? "on" : fmt::format("{}%", steering.percent);
}
// "2026-11-21T18:00:00.000Z link waiting checked leaf0--spine1".
std::string Format(const MaintenanceWindow& window) {
  return fmt::format("{} {}{}{} {}", FormatWallTime(window.from), window.kind,
                     window.has_begun ? " begun" : " waiting",
                     window.is_forced ? " forced" : " checked", window.id);
}
std::string Format(const UnreadableValue& unreadable) { return unreadable.text; }

// Removes the text up to the next separator, and the separator, from `text`; returns the former.
std::string_view TakeUpTo(char separator, std::string_view& text) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::optional<StartedJob> ParseJob(const std::string& name, std::string_view text) {
  StartedJob job{.spec = {.name = name, .ranks = {}}, .listen_ports = {}};
  JobSpec& spec = job.spec;
  std::string_view head = TakeUpTo('\n', text);
  const auto collective = forest::FindCollective(TakeUpTo(' ', head));
  const auto bytes = ParseNumber<std::uint64_t>(TakeUpTo(' ', head));
  if (!collective || !bytes) return std::nullopt;
  spec.collective = *collective;
  spec.bytes = *bytes;
  spec.offload = TakeUpTo(' ', head) == "offload";
  while (!head.empty()) {
    const std::string_view word = TakeUpTo(' ', head);
    if (word == "verbs" && job.listen_ports.empty()) {
      spec.verbs = true;
      continue;
    }
    if (word.starts_with(kUserWord) && job.listen_ports.empty()) {
      spec.user = word.substr(kUserWord.size());
      if (!IsLocalUser(spec.user)) return std::nullopt;
      continue;
    }
    const auto port = ParseNumber<std::uint16_t>(word);
    if (!port || *port == 0) return std::nullopt;
    job.listen_ports.push_back(*port);
  }
  while (!text.empty()) spec.ranks.emplace_back(TakeUpTo('\n', text));
  if (!job.listen_ports.empty() && job.listen_ports.size() != spec.ranks.size())
    return std::nullopt;
  return job;
}

std::optional<SteeringSetting> ParseSteering(std::string_view text) {
  if (text == "off") return SteeringSetting{0};
  if (text == "on") return SteeringSetting{100};
  if (!text.ends_with('%')) return std::nullopt;
  const auto percent = ParseNumber<std::uint32_t>(text.substr(0, text.size() - 1));
  if (!percent || *percent == 0 || *percent >= 100) return std::nullopt;
  return SteeringSetting{*percent};
}

std::optional<MaintenanceWindow> ParseWindow(std::string_view text) {
  const auto from = ParseWallTime(TakeUpTo(' ', text), WallTime{});
  if (!from) return std::nullopt;
  MaintenanceWindow window{.kind = std::string(TakeUpTo(' ', text)), .id = {}, .from = *from};
  window.has_begun = TakeUpTo(' ', text) == "begun";
  window.is_forced = TakeUpTo(' ', text) == "forced";
  window.id = text;
  const bool is_valid = (window.kind == "link" || window.kind == "node") && !window.id.empty();
  return is_valid ? std::optional(std::move(window)) : std::nullopt;
}

}  // namespace

std::string FormatIntentValue(const IntentValue& value) {
  return std::visit([](const auto& known) { return Format(known); }, value);
}

IntentValue ParseIntentValue(IntentById Intents::*kind, const std::string& id,
                             std::string_view text) {
  if (kind == &Intents::jobs) {
    if (auto job = ParseJob(id, text)) return *std::move(job);
  } else if (kind == &Intents::weights) {
    if (const auto weight = ParseNumber<std::uint32_t>(text)) return JobWeight{*weight};
  } else if (kind == &Intents::policies) {
    if (const auto policy = ParsePolicy(id, text)) return *policy;
  } else if (kind == &Intents::steering) {
    if (const auto steering = ParseSteering(text)) return *steering;
  } else if (kind == &Intents::maintenance) {
    if (auto window = ParseWindow(text)) return *std::move(window);
  } else if (text.empty()) {
    return {};
  }
  return UnreadableValue{std::string(text)};
}

}  // namespace espalier::controller
