#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::offline {

// Limits on the contents of job, flow and assignment files; the error for more names the line.
inline constexpr std::size_t kMaxJobFlows = 1'000'000;  // in a job file, over all its exchanges
inline constexpr std::size_t kMaxFlows = 1'000'000;     // in a flow file
inline constexpr std::int64_t kMaxFlowBytes = std::int64_t{1} << 50;

}  // namespace espalier::offline
