#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "common/fabric/paths.h"
#include "common/files/topology_file.h"

// Arbitrary bytes as a topology file give an error with its place, or a valid topology, in which
// paths can be found and which reads back equal.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using espalier::fabric::NodeId;
  const auto topology =
      espalier::io::ParseTopology({reinterpret_cast<const char*>(data), size}, "f");
  if (!topology.has_value()) {
    ESPALIER_CHECK(topology.error().message.starts_with("f:"), "{}", topology.error().message);
    return 0;
  }
  const auto again =
      espalier::io::ParseTopology(espalier::io::FormatTopology(topology->Spec()), "again");
  ESPALIER_CHECK(again.has_value(), "{}", again.error().message);
  ESPALIER_CHECK(std::ranges::equal(again->nodes(), topology->nodes()));
  ESPALIER_CHECK(std::ranges::equal(again->links(), topology->links()));

  espalier::fabric::PathTable paths(*topology);
  const auto nodes = static_cast<std::int32_t>(std::min<std::size_t>(8, topology->nodes().size()));
  for (std::int32_t from = 0; from < nodes; ++from) {
    for (std::int32_t to = 0; to < nodes; ++to) {
      for (const auto& path : paths.Between(NodeId(from), NodeId(to))) {
        NodeId at(from);
        for (const auto hop : path.hops) {
          ESPALIER_CHECK(topology->From(hop) == at);
          at = topology->To(hop);
        }
        ESPALIER_CHECK(at == NodeId(to));
      }
    }
  }
  return 0;
}
