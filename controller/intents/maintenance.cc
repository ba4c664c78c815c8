#include "controller/intents/maintenance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "controller/intents/parse_number.h"

namespace espalier::controller {
namespace {

const MaintenanceWindow* WindowFor(const Intent& intent, std::string_view kind,
                                   std::string_view id) {
  const auto* const window = std::get_if<MaintenanceWindow>(&intent.value);
  return window != nullptr && window->kind == kind && window->id == id ? window : nullptr;
}

}  // namespace

bool IsInMaintenance(const IntentById& windows, std::string_view kind, std::string_view id) {
  return std::ranges::any_of(windows, [&](const auto& member) {
    const MaintenanceWindow* const window = WindowFor(member.second, kind, id);
    return window != nullptr && window->has_begun;
  });
}

std::string WindowsOf(const IntentById& windows, std::string_view kind, std::string_view id) {
  std::string names;
  for (const auto& [name, intent] : windows) {
    if (WindowFor(intent, kind, id) == nullptr) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  return names;
}

std::string NextWindowId(const IntentById& windows) {
  std::uint64_t highest = 0;
  for (const auto& [name, intent] : windows) {
    if (!name.starts_with('m')) continue;
    const auto number = ParseNumber<std::uint32_t>(std::string_view(name).substr(1));
    highest = std::max<std::uint64_t>(highest, number.value_or(0));
  }
  return fmt::format("m{}", highest + 1);
}

}  // namespace espalier::controller
