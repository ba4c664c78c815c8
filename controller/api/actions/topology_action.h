#pragma once

#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "common/http/http.h"
#include "controller/controller.h"
#include "controller/operations/topology_effects.h"
#include "controller/operations/topology_keeper.h"

namespace espalier::controller {

// Identifies the nodes and links of a topology, whatever the states of its links are. O(links).
std::string TopologyDigest(const fabric::Topology& topology);

// What taking over another topology does, or (dry run) would do, as JSON. `base` is the digest of
// the topology in force before; `question` says why the action requires confirmation, and `refusal`
// why it is refused ("": it is not).
struct TopologyAnswer {
  bool dry_run = false;
  std::string base{};
  std::string question{};
  std::string refusal{};
};
std::string TopologyEffectsView(const TopologyEffects& effects, const TopologyAnswer& answer);

// Takes over the topology in the request's body, a topology file, or (dry run) tells what would
// follow. The query's `base`, if it is there, must be the digest of the topology in force: else
// somebody else has applied one in the meantime. `keeper`: null if this daemon takes none over.
// Errors: those of the file, of CheckEffects and of the keeper; kFailedPrecondition for another
// base and for more moved flows than an operator must confirm.
void ApplyTopology(Controller& controller, TopologyKeeper* keeper, const io::HttpRequest& request,
                   const OperatorRequest& asked, std::function<void(Result<std::string>)> done);

}  // namespace espalier::controller
