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

// Costs that were measured between `ranks` ranks over one transport.
struct MeasuredCosts {
  Medium medium = Medium::kShared;
  int ranks = 2;
  Costs costs;
};

// Formats the file that `espalier bench fit` writes (docs/formats.md). Numbers keep all digits.
std::string FormatCosts(const std::vector<MeasuredCosts>& table);
// Errors: kInvalidArgument, with the line number, for another kind of file, for a cost that is
// negative or not a number, or for more than 1,000 entries.
Result<std::vector<MeasuredCosts>> ParseCosts(std::string_view text);
// Errors: kNotFound, or those of ParseCosts prefixed with the file's name.
Result<std::vector<MeasuredCosts>> ReadCostsFile(const std::string& file);
// Finds the entry for the medium with the nearest number of ranks (by ratio; the first of two). If
// the table has no entry for the medium, returns costs measured on the machine of
// docs/benchmarks.md.
Costs FindCosts(const std::vector<MeasuredCosts>& table, Medium medium, int ranks);

// Distributes the costs that rank 0 finds in its file to all ranks, so that all choose alike. An
// empty path stands for no file. A file that cannot be read is an error on every rank.
Result<Costs> AgreeOnCosts(transport::RendezvousStore& store, const std::string& group, int rank,
                           int size, Medium medium, const std::string& file,
                           transport::Deadline deadline);

}  // namespace espalier::runtime
