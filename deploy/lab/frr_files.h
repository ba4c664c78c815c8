#pragma once

#include <string>

#include "deploy/lab/lab_layout.h"

namespace espalier::lab {

// The configurations of FRR's daemons on a switch.
struct FrrFiles {
  std::string zebra;  // writes routes to the kernel
  std::string bgpd;   // agrees on them with the neighbours
  std::string bfdd;   // notices neighbours that have become silent
};

// Every switch speaks BGP with its neighbours, as RFC 7938 describes: all spines and cores have one
// AS, the aggregation switches of a pod another, and each leaf its own, so that no path descends
// and ascends again. A leaf announces the network of its NICs. BFD finds a silent neighbour after
// 0.9 s. Zebra writes multipath routes without nexthop objects: with these, FRR 8.4 loses a next
// hop for good when its link comes back. Pure.
FrrFiles MakeFrrFiles(const LabLayout& layout, const LabNode& node);

}  // namespace espalier::lab
