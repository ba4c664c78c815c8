#pragma once

#include "controller/intents/intent.h"
#include "controller/settings/options.h"

namespace espalier::controller {

// The options that are in force: those of the configuration, overridden by the policies that
// operators have set.
// Thread safety: the controller's loop thread.
class Settings {
 public:
  explicit Settings(ControllerOptions configured);

  // The options in force. The reference stays valid and up to date while this object lives.
  const ControllerOptions& now() const { return now_; }
  const ControllerOptions& configured() const { return configured_; }  // without policies

  // Replaces the policies.
  void Apply(const IntentById& policies);
  // Takes from a configuration that was read again its policies, the lease, the verification
  // interval, the limits of agents, what operators must confirm, whether splits are balanced, and
  // whether the controller only observes; other changes need a restart.
  // Call Apply afterwards.
  void Reload(const ControllerOptions& configured);

 private:
  ControllerOptions configured_;
  ControllerOptions now_;
};

}  // namespace espalier::controller
