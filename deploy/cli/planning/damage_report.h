#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "controller/offline/damage/damage_study.h"

namespace espalier::cli {

// The rows of `espalier simulate damage`.
struct DamageReport {
  template <typename Row>
  struct OfFabric {
    std::size_t hosts = 0;
    Row row;
  };
  offline::DamageOptions options;
  std::vector<OfFabric<offline::KnownDamage>> known;
  std::vector<OfFabric<offline::Rotation>> rotations;
  std::vector<OfFabric<offline::Failure>> failures;
  std::vector<OfFabric<offline::ShiftedLoads>> loads;
};

// As one JSON object, and as tables on standard output.
std::string FormatDamage(const DamageReport& report);
void PrintDamage(const DamageReport& report);

}  // namespace espalier::cli
