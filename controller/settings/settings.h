#pragma once

#include "controller/intents/intent.h"
#include "controller/settings/options.h"

namespace espalier::controller {

// The options that the controller runs by: those of its configuration, and on top of them the
// policies that operators have set.
// Thread safety: the controller's loop thread.
class Settings {
 public:
  explicit Settings(ControllerOptions configured);

  // In force; valid, and up to date, for as long as this object lives.
  const ControllerOptions& now() const { return now_; }
  const ControllerOptions& configured() const { return configured_; }  // without policies

  // These policies hold from now on.
  void Apply(const IntentById& policies);
  // The configuration was read again: takes its policies, the lease, the interval of verification
  // and the limits of agents; the rest needs a restart. Apply follows.
  void Reload(const ControllerOptions& configured);

 private:
  ControllerOptions configured_;
  ControllerOptions now_;
};

}  // namespace espalier::controller
