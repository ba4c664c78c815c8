#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Reads an undirected graph of Graphviz as Cumulus' Prescriptive Topology Manager does: statements
// "DEVICE":"PORT" -- "DEVICE":"PORT" [speed="100G"]. The attribute `function` of a device (leaf,
// tor, spine, superspine, core, host, server) says what it is; other attributes have no effect.
// Refused are directed and strict graphs, chains and sets of nodes, subgraphs and HTML.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadDotCables(std::string_view text, std::string_view file);

}  // namespace espalier::imports
