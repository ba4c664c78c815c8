#pragma once

#include <string>

#include "common/base/result.h"
#include "deploy/demo/lab_daemons.h"
#include "deploy/lab/lab.h"

namespace espalier::demo {

// What is wrong with the link between the first leaf and its first spine, which is an aggregation
// switch in a lab of three tiers.
enum class Damage {
  kNone,
  // Known before any flow, to the controller and, of a link that is down, to the switches.
  kDownBefore,
  kHalfRateBefore,
  // Happens while flows are in progress. No switch notices it, and nobody is told.
  kDataLost,              // packets of flows to the leaf are dropped
  kAcknowledgementsLost,  // acknowledgements that come from or go to the leaf are dropped
  kAllLost,               // both
};
inline constexpr Damage kDamages[] = {
    Damage::kNone,     Damage::kDownBefore,           Damage::kHalfRateBefore,
    Damage::kDataLost, Damage::kAcknowledgementsLost, Damage::kAllLost};
// "none", "before", "half", "data", "acknowledgements", "all".
std::string NameOf(Damage damage);
// Whether it happens while flows are in progress.
bool HappensLater(Damage damage);
// The part of what the leaf's uplinks carry together that is left to flows that know of the damage;
// 1 if it happens later.
double PartLeft(Damage damage, int spines);

// Damages the link before any flow, and waits until the controller (null: there is none) has taken
// it into account. The lab stays damaged. Errors: those of the lab and of the controller.
Result<void> DamageBefore(const lab::Lab& lab, Damage damage, const LabDaemons* daemons);

// Drops packets at the spine while it exists.
class PacketLoss {
 public:
  // Errors: those of the lab.
  static Result<PacketLoss> Begin(const lab::Lab& lab, Damage damage);
  PacketLoss(PacketLoss&& other) noexcept;
  PacketLoss& operator=(PacketLoss&&) = delete;
  ~PacketLoss();

 private:
  explicit PacketLoss(const lab::Lab& lab) : lab_(&lab) {}

  const lab::Lab* lab_;
};

}  // namespace espalier::demo
