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

// Summarises a sound schedule on one page for people: rates and bound, the bottleneck cut, trees
// and heights, and the load of each class of links (by the kinds of their two ends and the rate).
std::string SummariseForest(const fabric::Topology& topology, const TreeSchedule& schedule,
                            const Findings& findings);

// What in-network aggregation saves on the links of one class, in trees times links.
struct ClassSaving {
  std::string from;
  std::string to;
  BitsPerSecond rate;
  std::int64_t before = 0;
  std::int64_t after = 0;
};
// Computes the savings by class. pruned: the result of CountPrunedLoads.
std::vector<ClassSaving> SavingsByClass(const fabric::Topology& topology,
                                        const TreeSchedule& schedule, const Findings& findings,
                                        const std::vector<std::vector<std::int64_t>>& pruned);
// Formats the savings for people.
std::string SummariseSavings(const std::vector<ClassSaving>& savings);

// Formats one tree as Graphviz text: ranks level by level, edges labelled with the switches on
// their route if these are few. tree_class: index among the classes of the first phase's forest.
// Errors: kInvalidArgument if there is no such tree.
Result<std::string> FormatTreeAsDot(const fabric::Topology& topology, const TreeSchedule& schedule,
                                    std::size_t tree_class);

}  // namespace espalier::forest
