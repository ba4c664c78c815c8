#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// A pair of leaves, and a host of each.
struct LeafPair {
  std::string leaf;
  std::string source;
  std::string destination_leaf;
  std::string destination;
};

// Chooses pairs of leaves to probe, each in both directions and by turns with each leaf's hosts:
// those between the leaves `a` and `b` ("": every leaf), at most `most`. Every leaf sends and
// receives before one does so twice. `nodes` and `links` are the rows of the controller's lists; a
// host without a connected agent does not probe.
std::vector<LeafPair> ChoosePairs(const std::vector<io::JsonValue>& nodes,
                                  const std::vector<io::JsonValue>& links, const std::string& a,
                                  const std::string& b, std::size_t most);

struct SweepOptions {
  std::string a;  // leaf; "": all
  std::string b;
  unsigned ports = 16;      // of each pair
  std::size_t pairs = 256;  // at most
};

// Probes pairs of leaves one after the other, and prints behind which links answers stayed away.
void Sweep(Session& session, const SweepOptions& options);

}  // namespace espalier::cli
