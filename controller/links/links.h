#pragma once

#include "controller/links/background_loads.h"
#include "controller/links/link_health.h"
#include "controller/links/link_states.h"

namespace espalier::controller {

// What is known about the links: whether they work, whether they lose packets, their resulting
// states, and how much of them traffic takes that Espalier does not steer.
struct Links {
  LinkHealth health;
  LinkStates states;
  BackgroundLoads background;
};

}  // namespace espalier::controller
