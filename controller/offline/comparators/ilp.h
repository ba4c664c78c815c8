#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "controller/routing/assignment.h"

namespace espalier::offline {

// The least maximum load as an integer program, for a packaged solver: "ILP optimum" of Routing
// for Large ML Models (section 5.1), first layer only (which flows share a link at equal maximum
// load is left to the solver's chance).
//   minimise t, with x(g, p) whole: how many of group g's ways take path p;
//   sum over p of x(g, p) = the ways of g;
//   on every link: sum of x(g, p) / ways(g) <= t x capacity / unit;
//   t >= the lower bound of ComputeLowerBound (true of every solution, and it ends the search).
// A group: all commodities between the same leaves that are split alike.
class IlpProgram {
 public:
  IlpProgram(controller::FabricView& view, std::span<const controller::Commodity> commodities);

  // In CPLEX's LP format, which cbc, glpsol, scip and others read. Empty where no commodity has
  // a choice to make.
  const std::string& text() const { return text_; }

  // The assignment that a solution in cbc's format stands for.
  // Errors: kInternal where the solver found none, or not whole numbers of all ways.
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
