#pragma once

#include <cstdint>
#include <string>

#include "collective/program/program.h"

namespace espalier::program {

// Which calls a program serves: those whose data is `least` to `greatest` bytes. Data of an
// allgather, a reduce-scatter and an alltoall is a multiple of `unit`, the number of ranks, as each
// rank has the same share of it; a barrier has none. So a program may have sizes that no call has.
struct ServedSizes {
  enum class Calls : std::uint8_t { kSome, kOnlyEmpty, kNone };
  Calls calls = Calls::kSome;
  std::int64_t least = 0;     // of a call that has this size
  std::int64_t greatest = 0;  // the same; the greatest number: no limit
  std::int64_t unit = 1;
};
ServedSizes SizesServedBy(const Program& program);

// In words: "serves calls of 8 to 1024 bytes", or why the program serves no call or only empty ones
// and what to change.
std::string DescribeServedSizes(const Program& program);

}  // namespace espalier::program
