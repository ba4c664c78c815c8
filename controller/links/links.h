#pragma once

#include <string>
#include <utility>
#include <vector>

#include "controller/links/background_loads.h"
#include "controller/links/link_health.h"
#include "controller/links/link_states.h"
#include "controller/sightings/sightings.h"

namespace espalier::controller {

// What is known about the links: whether they work, whether they lose packets, their resulting
// states, how much of them traffic takes that Espalier does not steer, and which flows switches saw
// on them. Telemetry feeds report to `health`, `background` and `sightings`.
struct Links {
  LinkHealth health;
  LinkStates states;
  BackgroundLoads background;
  Sightings sightings;

  // Why health is in doubt, as sentences without a full stop.
  std::vector<std::string> Doubts() const {
    std::vector<std::string> doubts = health.tester().Doubts();
    for (std::string& doubt : sightings.Doubts()) doubts.push_back(std::move(doubt));
    return doubts;
  }
};

}  // namespace espalier::controller
