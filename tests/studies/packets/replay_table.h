#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"

namespace espalier::offline {

// A flow of a table that `espalier assign|simulate --export ns3` wrote.
struct TableFlow {
  // What the flow sends on one of its paths.
  struct Part {
    std::int64_t bytes = 0;
    std::vector<std::uint32_t> links;  // DirectedLink::Index, from NIC to NIC; at least two
  };

  std::string id;
  std::string job;
  fabric::NodeId source;
  fabric::NodeId destination;
  std::int64_t start_ns = 0;
  std::vector<Part> parts;

  std::int64_t Bytes() const;
};

inline constexpr std::size_t kMaxTableRows = 1'000'000;

// Parses such a table (docs/formats.md, "Assignments for packet simulators"). Parts of LOCAL flows,
// whose rows have no links, get the links to and from the switch that both ends have in common.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)" for a wrong header, fields that are
// missing or no numbers, unknown nodes, links that are unknown, DOWN, DRAINED or no path from the
// source to the destination, rows of one flow that are apart or contradict each other, and more
// than kMaxTableRows rows.
Result<std::vector<TableFlow>> ParseReplayTable(std::string_view text, std::string_view file_name,
                                                const fabric::Topology& topology);

}  // namespace espalier::offline
