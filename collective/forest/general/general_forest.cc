#include "collective/forest/general/general_forest.h"

#include <utility>

#include "collective/forest/edge_splitting/elimination.h"
#include "collective/forest/edge_splitting/switch_routes.h"
#include "collective/forest/general/packing.h"
#include "collective/forest/model/routable.h"

namespace espalier::forest {

Result<Forest> BuildGeneralForest(const Problem& problem, const TreeCount& count,
                                  const EliminationOptions& options, const Control& control) {
  Result<Elimination> elimination = EliminateNodes(problem, count, options, control);
  if (!elimination) return Propagate(elimination);
  const std::int64_t need = problem.TotalWeight() * count.trees_per_weight;
  Result<Packing> packing =
      PackTrees(elimination->graph, elimination->ranks, elimination->last, need, control);
  if (!packing) return Propagate(packing);

  Forest forest;
  forest.method = Method::kGeneral;
  forest.rank_count = problem.rank_count;
  forest.classes = std::move(packing->classes);
  forest.parents = std::move(packing->parents);
  forest.routes = ResolveRoutes(problem, count, elimination->switches);
  forest.trees_per_weight = count.trees_per_weight;
  forest.scale = count.scale;
  forest.inverse_rate = count.inverse_rate;
  forest.fallbacks = elimination->fallbacks;
  forest.unroutable_edges = CountUnroutableEdges(problem, forest);
  return forest;
}

}  // namespace espalier::forest
