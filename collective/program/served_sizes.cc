#include "collective/program/served_sizes.h"

#include <fmt/format.h>

#include <limits>

namespace espalier::program {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
constexpr const char* kRemedy = "change the sizes in the file to those of your calls";

std::int64_t UnitOf(const CollectiveSpec& spec) {
  switch (spec.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return spec.ranks;
    default:
      return 1;
  }
}

std::string Sizes(const Program& program) {
  return program.max_bytes == kNoLimit
             ? fmt::format("at least {} bytes", program.min_bytes)
             : fmt::format("{} to {} bytes", program.min_bytes, program.max_bytes);
}

std::string WhyNone(const Program& program, std::int64_t unit) {
  if (program.min_bytes > program.max_bytes) {
    return fmt::format("its least size, {} bytes, is above its greatest, {}", program.min_bytes,
                       program.max_bytes);
  }
  if (program.collective.kind == CollectiveKind::kBarrier) {
    return fmt::format("its sizes are {}, and a barrier has no data", Sizes(program));
  }
  return fmt::format("its sizes are {}, and the data of {} ranks is a multiple of {} bytes",
                     Sizes(program), program.collective.ranks, unit);
}

}  // namespace

ServedSizes SizesServedBy(const Program& program) {
  ServedSizes sizes{.unit = UnitOf(program.collective)};
  const bool is_barrier = program.collective.kind == CollectiveKind::kBarrier;
  const std::int64_t short_of = program.min_bytes % sizes.unit;
  // No call is within `unit` of the greatest number of bytes.
  const bool is_beyond = program.min_bytes > kNoLimit - sizes.unit;
  sizes.least = program.min_bytes + (short_of == 0 || is_beyond ? 0 : sizes.unit - short_of);
  sizes.greatest =
      program.max_bytes == kNoLimit ? kNoLimit : program.max_bytes - program.max_bytes % sizes.unit;
  if (is_barrier && program.min_bytes <= 0) sizes.greatest = 0;
  if (sizes.least > sizes.greatest || (is_barrier && program.min_bytes > 0)) {
    sizes.calls = ServedSizes::Calls::kNone;
  } else if (sizes.greatest == 0) {
    sizes.calls = ServedSizes::Calls::kOnlyEmpty;
  }
  return sizes;
}

std::string DescribeServedSizes(const Program& program) {
  const ServedSizes sizes = SizesServedBy(program);
  const bool is_barrier = program.collective.kind == CollectiveKind::kBarrier;
  if (sizes.calls == ServedSizes::Calls::kNone) {
    return fmt::format("serves no call and will never be used, because {} ({})",
                       WhyNone(program, sizes.unit), kRemedy);
  }
  if (is_barrier) return "serves barriers, which have no data";
  if (sizes.calls == ServedSizes::Calls::kOnlyEmpty) {
    return fmt::format(
        "serves only empty calls, and no call with data will ever use it, because its greatest "
        "size is {} bytes ({})",
        program.max_bytes, kRemedy);
  }
  if (sizes.greatest != kNoLimit) {
    return fmt::format("serves calls of {} to {} bytes", sizes.least, sizes.greatest);
  }
  return sizes.least == 0 ? "serves calls of any size"
                          : fmt::format("serves calls of at least {} bytes", sizes.least);
}

}  // namespace espalier::program
