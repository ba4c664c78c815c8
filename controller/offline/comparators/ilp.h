#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "controller/routing/model/assignment.h"

namespace espalier::offline {

// The minimum of the maximum load as an integer program for a packaged solver: "ILP optimum" of
// Routing for Large ML Models (section 5.1), first layer only (which flows share a link at equal
// maximum load is left to the solver).
//   minimise t, with x(g, p) whole: how many subflows of group g take path p;
//   sum over p of x(g, p) = the subflows of g;
//   on every link: sum of x(g, p) / subflows(g) <= t x capacity / unit;
//   t >= the lower bound of ComputeLowerBound (true of every solution, and it ends the search).
// A group holds all commodities between the same leaves with the same number of subflows.
class IlpProgram {
 public:
  IlpProgram(controller::FabricView& view, std::span<const controller::Commodity> commodities);

  // The program in CPLEX's LP format, which cbc, glpsol, scip and others read. Empty if no
  // commodity has a choice of paths.
  const std::string& text() const { return text_; }

  // Converts a solution in cbc's format to an assignment.
  // Errors: kInternal if there is no solution, or it has fractional or missing subflows.
  Result<controller::Assignment> ReadSolution(std::string_view solution) const;

 private:
  struct Group {
    std::vector<std::uint32_t> commodities;
    std::vector<std::int32_t> paths;  // usable ones
    std::uint32_t subflows = 1;       // of each
  };
  void FindGroups();
  void WriteText();

  controller::FabricView& view_;
  std::vector<controller::Commodity> commodities_;
  controller::Assignment unassigned_;
  std::vector<Group> groups_;
  std::string text_;
};

}  // namespace espalier::offline
