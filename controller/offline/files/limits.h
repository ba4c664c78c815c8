#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::offline {

// How much the files of jobs, flows and plans may say; more is refused with its line.
inline constexpr std::size_t kMaxJobFlows = 1'000'000;  // of a job file, over all its rings
inline constexpr std::size_t kMaxFlows = 1'000'000;     // of a flow file
inline constexpr std::int64_t kMaxFlowBytes = std::int64_t{1} << 50;

}  // namespace espalier::offline
