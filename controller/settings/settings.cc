#include "controller/settings/settings.h"

#include <string_view>
#include <utility>

#include "controller/settings/policies.h"

namespace espalier::controller {

Settings::Settings(ControllerOptions configured)
    : configured_(std::move(configured)), now_(configured_) {}

void Settings::Apply(const IntentById& policies) { now_ = WithPolicies(configured_, policies); }

void Settings::Reload(const ControllerOptions& configured) {
  for (const std::string_view name : PolicyNames()) {
    SetPolicy(configured_, name, PolicyOf(configured, name));
  }
  configured_.lease = configured.lease;
  configured_.verification = configured.verification;
  configured_.balance_splits = configured.balance_splits;
  configured_.confirm_moves_above = configured.confirm_moves_above;
  configured_.observes = configured.observes;
  configured_.agent_limits = configured.agent_limits;
}

}  // namespace espalier::controller
