#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/studies/damage/damage_study.h"

namespace espalier::offline {

// The rows of the program damage_study.
struct DamageReport {
  template <typename Row>
  struct OfFabric {
    std::size_t hosts = 0;
    Row row;
  };
  DamageOptions options;
  std::vector<OfFabric<KnownDamage>> known;
  std::vector<OfFabric<Failure>> failures;
  std::vector<OfFabric<ShiftedLoads>> loads;
};

// As one JSON object, and as tables on standard output.
std::string FormatDamage(const DamageReport& report);
void PrintDamage(const DamageReport& report);

}  // namespace espalier::offline
