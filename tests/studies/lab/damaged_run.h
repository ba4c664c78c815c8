#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/lab/lab.h"
#include "tests/studies/lab/link_damage.h"

namespace espalier::demo {

struct DamageCase {
  Damage damage = Damage::kNone;
  int unknown_percent = 0;        // of the permutation's flows, which agents do not hear of
  int mice_percent = 0;           // of the bytes, in flows that are too short to be steered
  int paths = 1;                  // connections of each flow of the permutation
  bool feeds_loads = false;       // the controller hears from the switches how loaded links are
  bool kills_controller = false;  // right before damage that happens later
  // In place of the permutation: one ring for each host of a leaf, each a job of its own, with so
  // many all-reduces; 0: the permutation.
  int ring_epochs = 0;
};

struct DamageFigures {
  double slowest_seconds = 0;        // of the permutation's flows
  double slowest_known_seconds = 0;  // of those that agents hear of
  // Of a flow that has its even share of what damage which is known before leaves of its leaf's
  // uplinks, and that carries all bytes of its NIC, those of mice too.
  double ideal_seconds = 0;
  int flows = 0;  // of the permutation
  int unknown_flows = 0;
  int mice = 0;
  double mice_p99_seconds = 0;
  int hanging_flows = 0;  // of all flows, those that did not end within the time limit
  // From the damage until every flow of those that had stopped moved bytes again, as agents tell
  // it, after their moves; counted by the controller's events, so 0 without a controller.
  int recovered_flows = 0;
  double slowest_recovery_seconds = 0;
  // Of rings: the mean time of a job's all-reduces, relative to that on a whole fabric; of the
  // first half of them, as jobs that have ended leave room to others.
  double slowest_job = 0;
  double mean_job = 0;
};

// Runs the permutation (MakePermutation) with each flow on `paths` connections, beside flows that
// are not steered, or rings (MakeRingJobs), with plain ECMP (daemons null) or under Espalier.
// Damage that is known before stays, and a killed controller is not started again. Errors: those of
// the lab.
Result<DamageFigures> RunWithDamage(const lab::Lab& lab, const DamageCase& what, std::uint64_t seed,
                                    LabDaemons* daemons);

}  // namespace espalier::demo
