#pragma once

#include <string_view>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Reads a topology of NCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): the inside of a box. GPUs become
// COMPUTE, network devices NICs, and CPUs, PCI bridges and NVSwitches SWITCH nodes of the host,
// which has the name of the file (with a number, where the file has several hosts). PCI functions
// without `gpu` and `nic` elements count by their class. Rates are those that NCCL computes with:
// width times lane rate for PCI, by generation for NVLink, by model between CPUs.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)".
Result<Cabling> ReadNcclBox(std::string_view text, std::string_view file);

}  // namespace espalier::imports
