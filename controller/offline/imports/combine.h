#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"
#include "controller/offline/imports/device_kinds.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

struct CombineOptions {
  std::string name;                     // of the topology
  BitsPerSecond rate{100'000'000'000};  // of cables whose rate no file states
  KindPatterns kinds;
};

struct Imported {
  fabric::TopologySpec spec;
  // Sentences: what readers left out or assumed, what is inferred, and what is missing for
  // steering, each with the names.
  std::vector<std::string> remarks;
  std::vector<std::string> assumptions;
  std::vector<std::string> missing;
};

// Makes one topology of the facts of several files. A host with one cable becomes a COMPUTE that
// is its own NIC; one with several a COMPUTE and a NIC for each port, linked at the port's rate.
// Switches whose names are made up get those that other sources give their addresses. Parts of
// boxes (NCCL, SimAI) keep their kind. A link's end a is the lower one. Errors: those of
// JoinSources and ChooseKinds; a port of a box that is none of its NICs.
Result<Imported> Combine(std::span<const Cabling> sources, const CombineOptions& options);

}  // namespace espalier::imports
