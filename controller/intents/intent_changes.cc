#include "controller/intents/intent_changes.h"

#include <array>

#include "common/base/enum_names.h"

namespace espalier::controller {

std::string_view IntentChangeName(IntentChange::Kind kind) {
  using Kind = IntentChange::Kind;
  static constexpr EnumNames<Kind> kNames(
      {{Kind::kAdded, "ADDED"}, {Kind::kRemoved, "REMOVED"}, {Kind::kChanged, "CHANGED"}});
  return kNames.NameOf(kind);
}

std::span<const IntentKind> IntentKinds() {
  static constexpr std::array kKinds = {IntentKind{&Intents::failed_links, "failed link"},
                                        IntentKind{&Intents::failed_nodes, "failed node"},
                                        IntentKind{&Intents::drained_links, "drained link"},
                                        IntentKind{&Intents::drained_nodes, "drained node"},
                                        IntentKind{&Intents::restored_links, "restored link"},
                                        IntentKind{&Intents::jobs, "job"},
                                        IntentKind{&Intents::weights, "weight"},
                                        IntentKind{&Intents::policies, "policy"},
                                        IntentKind{&Intents::steering, "steering"},
                                        IntentKind{&Intents::maintenance, "maintenance"}};
  return kKinds;
}

std::vector<IntentChange> ChangesBetween(const Intents& before, const Intents& after) {
  std::vector<IntentChange> changes;
  for (const IntentKind& kind : IntentKinds()) {
    const IntentById& old = before.*kind.intents;
    const IntentById& present = after.*kind.intents;
    const auto add = [&](IntentChange::Kind change, const std::string& id, const Intent& intent) {
      changes.push_back({change, std::string(kind.name), id, intent});
    };
    for (const auto& [id, intent] : old) {
      const auto now = present.find(id);
      if (now == present.end()) {
        add(IntentChange::Kind::kRemoved, id, intent);
      } else if (now->second != intent) {
        add(IntentChange::Kind::kChanged, id, now->second);
      }
    }
    for (const auto& [id, intent] : present) {
      if (!old.contains(id)) add(IntentChange::Kind::kAdded, id, intent);
    }
  }
  return changes;
}

}  // namespace espalier::controller
