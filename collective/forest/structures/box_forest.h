#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "collective/forest/model/control.h"
#include "collective/forest/model/forest.h"
#include "collective/forest/model/problem.h"
#include "collective/forest/problem/boxes.h"
#include "common/base/result.h"

namespace espalier::forest {

// The forests inside boxes: trees that pass on what the ranks of a box receive or own. Stars over
// an inner switch where that is wide enough, else the general construction made shallow; where a
// box is too narrow, data may also turn round at the switches of the fabric that it is joined to.
// Boxes that are alike are solved once.
class BoxForests {
 public:
  // All must stay alive. height_steps: for each box that needs them.
  BoxForests(const Problem& whole, const Boxes& boxes, std::int64_t height_steps,
             const Control& control)
      : whole_(whole), boxes_(boxes), height_steps_(height_steps), control_(control) {}

  struct Solved {
    // Ranks by their place in the box; classes by root, as many trees as the root passes on.
    // Valid as long as this object.
    const Forest* forest = nullptr;
    std::vector<std::int32_t> arc;  // what the forest's hops stand for in the whole problem
  };
  // roots: by rank of the whole problem, the trees that it passes on within its box. left:
  // capacity by arc of the whole problem. None where the trees do not fit.
  // Errors: those of BuildGeneralForest.
  Result<std::optional<Solved>> Solve(std::int32_t box, std::span<const std::int64_t> roots,
                                      std::span<const std::int64_t> left);

 private:
  // The part of the whole problem that belongs to a box; arcs by what they are in the whole.
  struct Part {
    Problem problem;
    std::vector<std::int32_t> arc;
  };
  struct Entry {
    std::optional<Forest> forest;    // none: does not fit
    std::vector<std::int32_t> kept;  // arcs of the part that the forest's hops stand for
  };

  Part Extract(std::span<const std::int32_t> nodes, std::size_t rank_count,
               std::span<const std::int64_t> roots, std::span<const std::int64_t> left) const;
  std::vector<std::int32_t> FabricAround(std::span<const std::int32_t> nodes) const;
  Result<const Entry*> Look(const Part& part);
  Result<Entry> Compute(const Part& part) const;

  const Problem& whole_;
  const Boxes& boxes_;
  std::int64_t height_steps_;
  const Control& control_;
  std::map<std::vector<std::int64_t>, Entry> entries_;  // by what tells boxes apart
};

}  // namespace espalier::forest
