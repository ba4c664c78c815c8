#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// What happens to the link from spine0 to the first leaf's destinations while flows are in
// progress. No switch notices any of it, and nobody is told, except of a link that is down before.
enum class Damage {
  kNone,
  kDownBefore,            // the link is down, and switches and controller know it, before any flow
  kDataLost,              // packets of flows to the leaf are dropped
  kAcknowledgementsLost,  // acknowledgements that come from or go to the leaf are dropped
  kAllLost,               // both
};
inline constexpr Damage kDamages[] = {Damage::kNone, Damage::kDownBefore, Damage::kDataLost,
                                      Damage::kAcknowledgementsLost, Damage::kAllLost};
std::string NameOf(Damage damage);  // "none", "before", "data", "acknowledgements", "all"

struct DamageCase {
  Damage damage = Damage::kNone;
  int paths = 1;                  // connections of each flow
  bool kills_controller = false;  // right before the damage
};

struct DamageFigures {
  double slowest_seconds = 0;
  // Of a flow that is alone on its links; with kDownBefore, of one that has its even share of those
  // that its leaf has left.
  double ideal_seconds = 0;
  int hanging_flows = 0;  // that did not end within the time limit
  // From the damage until every flow of those that had stopped moved bytes again, as agents tell
  // it, after their moves; counted by the controller's events, so 0 without a controller.
  int recovered_flows = 0;
  double slowest_recovery_seconds = 0;
};

// Runs the permutation (MakePermutation) with each flow on `paths` connections, with plain ECMP
// (daemons null) or under Espalier. The fabric is whole again at the end; a killed controller is
// not started again. Errors: those of the lab.
Result<DamageFigures> RunWithDamage(const lab::Lab& lab, const DamageCase& what, std::uint64_t seed,
                                    LabDaemons* daemons);

}  // namespace espalier::demo
