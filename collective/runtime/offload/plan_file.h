#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "collective/program/program.h"
#include "collective/runtime/calls/collective_plan.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// Programs may choose source ports from here on; lower ports are privileged.
inline constexpr std::uint32_t kFirstOpenPort = 1024;
constexpr bool IsOpenPort(std::uint32_t port) {
  return port >= kFirstOpenPort && port <= UINT16_MAX;
}

// The plans that programs give to the offload service (OffloadPlanHeader). The file is untrusted.
// Only memory files are accepted, as reading one of another file system may block for good.
// Errors: kInvalidArgument unless it is a memory file of 1 byte to 16 MiB.
Result<std::size_t> SizeOfPlanFile(const UniqueFd& file);
// Copies that many bytes, because the program can still change the file.
Result<std::string> ReadPlanFile(const UniqueFd& file, std::size_t size);
// Errors: kInvalidArgument; those of program::DecodeProgram.
Result<CollectivePlan> ParsePlan(std::string_view bytes);

// The connections of a rank in a program; 0 if the program has no such rank.
std::int64_t CountConnections(const program::Program& program, int rank);

}  // namespace espalier::runtime
