#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/intents/intent.h"

namespace espalier::controller {

// One intent that differs between two sets.
struct IntentChange {
  enum class Kind : std::uint8_t { kAdded, kRemoved, kChanged };

  Kind kind = Kind::kAdded;
  std::string what;  // "drained link", "weight", ...
  std::string id;
  Intent intent;  // kRemoved: as it was; else as it is now
};
std::string_view IntentChangeName(IntentChange::Kind kind);  // "ADDED", ...

// What turns `before` into `after`, by kind of intent and then by id. O(intents).
std::vector<IntentChange> ChangesBetween(const Intents& before, const Intents& after);

// The kinds of intents in the order in which lists have them, with their names.
struct IntentKind {
  IntentById Intents::*intents;
  std::string_view name;
};
std::span<const IntentKind> IntentKinds();

}  // namespace espalier::controller
