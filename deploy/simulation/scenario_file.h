#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "deploy/simulation/scenario.h"

namespace espalier::simulation {

// Limits on what a scenario may ask for; the error for more names the line.
inline constexpr int kMaxHosts = 4096;
inline constexpr int kMaxSwitchesOfTier = 256;
inline constexpr std::size_t kMaxJobs = 1'000;
inline constexpr std::size_t kMaxActions = 10'000;
inline constexpr std::size_t kMaxConnections = 100'000;  // of all jobs
inline constexpr int kMaxConnectionsOfHost = 16'384;     // that it sends over
inline constexpr std::uint64_t kMaxBurstBytes = std::uint64_t{1} << 40;
inline constexpr std::int64_t kMaxDurationSeconds = 86'400;

// Reads the topology file that a scenario names.
using TopologyReader = std::function<Result<fabric::Topology>(const std::string& name)>;

// Parses a scenario (docs/formats.md, "Scenarios"). Checks all that can be known before the run:
// that hosts, links and nodes exist, that the fabric can be simulated (CheckFabric), and that
// actions need no controller or agent that does not run at their time.
// Errors: kInvalidArgument "FILE:LINE:COL: what (remedy)", and those of `read_topology`.
Result<Scenario> ParseScenario(std::string_view text, std::string_view file_name,
                               const TopologyReader& read_topology);

// Reads a scenario file. A topology file that it names is relative to its folder.
Result<Scenario> ReadScenario(const std::string& path);

}  // namespace espalier::simulation
