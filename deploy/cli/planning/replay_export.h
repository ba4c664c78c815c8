#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/files/replay_files.h"

namespace espalier::cli {

// The options --export FORMAT and --output FILE of a command.
struct ReplayExport {
  std::string format;  // "htsim", "ns3" or "": nothing is exported
  std::string output;

  bool IsWanted() const { return !format.empty(); }
};
void AddReplayExport(CLI::App& command, ReplayExport& request);

// Writes the files of --export. Errors: those of writing.
Result<void> WriteReplay(const ReplayExport& request, std::span<const offline::ReplayFlow> flows,
                         const fabric::Topology& topology);

}  // namespace espalier::cli
