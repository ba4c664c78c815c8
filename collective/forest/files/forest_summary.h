#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collective/forest/model/tree_schedule.h"
#include "collective/forest/verifier/verifier.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// A sound plan in a page, for people: rates and bound, the bottleneck cut, trees and heights, and
// how busy the links of each class (kinds of their two ends, and rate) are.
std::string SummariseForest(const fabric::Topology& topology, const TreeSchedule& plan,
                            const Findings& findings);

// What copying and adding up in switches saves on the links of one class: trees times links.
struct ClassSaving {
  std::string from;
  std::string to;
  BitsPerSecond rate;
  std::int64_t before = 0;
  std::int64_t after = 0;
};
// pruned: of CountPrunedLoads. By class.
std::vector<ClassSaving> SavingsByClass(const fabric::Topology& topology, const TreeSchedule& plan,
                                        const Findings& findings,
                                        const std::vector<std::vector<std::int64_t>>& pruned);
// The same for people.
std::string SummariseSavings(const std::vector<ClassSaving>& savings);

// One tree, by its place among the classes of the first phase's forest, as Graphviz: ranks level
// by level, edges labelled with the switches that they pass where these are few.
// Errors: kInvalidArgument where there is no such tree.
Result<std::string> FormatTreeAsDot(const fabric::Topology& topology, const TreeSchedule& plan,
                                    std::size_t tree_class);

}  // namespace espalier::forest
