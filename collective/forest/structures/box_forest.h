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

// Builds the forests inside boxes: trees that pass on the data that the ranks of a box receive or
// own. They are stars over an inner switch that is wide enough, else trees of the general
// construction made shallow. If a box is too narrow, data may also turn around at the fabric
// switches that the box is joined to. Equal boxes are solved once.
class BoxForests {
 public:
  // All arguments must outlive this object. height_steps: the limit for each box that needs them.
  BoxForests(const Problem& whole, const Boxes& boxes, std::int64_t height_steps,
             const Control& control)
      : whole_(whole), boxes_(boxes), height_steps_(height_steps), control_(control) {}

  struct Solved {
    // Ranks are indices within the box; classes are sorted by root, with as many trees as the root
    // passes on. Valid as long as this object.
    const Forest* forest = nullptr;
    std::vector<std::int32_t> arc;  // arcs of the whole problem for the forest's hops
  };
  // Builds the forest inside a box. roots: by rank of the whole problem, the trees that it passes
  // on within its box. left: remaining capacity by arc of the whole problem. Returns none if the
  // trees do not fit.
  // Errors: those of BuildGeneralForest.
  Result<std::optional<Solved>> Solve(std::int32_t box, std::span<const std::int64_t> roots,
                                      std::span<const std::int64_t> left);

 private:
  // The part of the whole problem that belongs to a box, with its arcs in the whole problem.
  struct Part {
    Problem problem;
    std::vector<std::int32_t> arc;
  };
  struct Entry {
    std::optional<Forest> forest;    // none: the trees do not fit
    std::vector<std::int32_t> kept;  // arcs of the part for the forest's hops
  };

  Part Extract(std::span<const std::int32_t> nodes, std::size_t rank_count,
               std::span<const std::int64_t> roots, std::span<const std::int64_t> left) const;
  std::vector<std::int32_t> FabricAround(std::span<const std::int32_t> nodes) const;
  Result<const Entry*> FindOrCompute(const Part& part);
  Result<Entry> Compute(const Part& part) const;

  const Problem& whole_;
  const Boxes& boxes_;
  std::int64_t height_steps_;
  const Control& control_;
  std::map<std::vector<std::int64_t>, Entry> entries_;  // by the properties that distinguish boxes
};

}  // namespace espalier::forest
