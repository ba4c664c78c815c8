#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collective/runtime/calls/medium.h"
#include "collective/runtime/choice/cost_model.h"
#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "common/base/result.h"

namespace espalier::runtime {

// Costs as measured between so many ranks.
struct MeasuredCosts {
  Medium medium = Medium::kShared;
  int ranks = 2;
  Costs costs;
};

// The file that `espalier bench fit` writes; see docs/formats.md. Costs are written with all their
// digits.
std::string FormatCosts(const std::vector<MeasuredCosts>& table);
// Errors: kInvalidArgument with the line, for what is no such file, a negative cost or one that is
// no number, or more entries than are sensible.
Result<std::vector<MeasuredCosts>> ParseCosts(std::string_view text);
// Errors: kNotFound, or those of ParseCosts after the file's name.
Result<std::vector<MeasuredCosts>> ReadCostsFile(const std::string& file);
// The entry of that medium whose number of ranks is nearest (in ratio; the smaller of two); where
// the table has none of the medium: what was measured on the machine that docs/benchmarks.md names.
Costs FindCosts(const std::vector<MeasuredCosts>& table, Medium medium, int ranks);

// All ranks of a group get the costs that rank 0 finds in its file (none: an empty path), so that
// all choose alike. A file that cannot be read is an error on every rank.
Result<Costs> AgreeOnCosts(transport::RendezvousStore& store, const std::string& group, int rank,
                           int size, Medium medium, const std::string& file,
                           transport::Deadline deadline);

}  // namespace espalier::runtime
