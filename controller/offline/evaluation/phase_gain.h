#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "controller/offline/evaluation/schemes.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

// What it gains to assign paths for phases instead of for all open connections.
struct PhaseGain {
  std::vector<double> factors;  // by job: its communication is that many times as fast
  // A sentence for the user, which names the reason where phases gain nothing.
  std::string text;
};

// Compares the runs of kConnections and kPhases; none if one of them is not there. Below 1 % it is
// no gain.
std::optional<PhaseGain> ComparePhases(std::span<const SchemeRun> runs, std::span<const Job> jobs);

}  // namespace espalier::offline
