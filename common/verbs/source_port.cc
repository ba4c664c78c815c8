#include "common/verbs/source_port.h"

#include <fmt/format.h>

namespace espalier::verbs {
namespace {

constexpr std::uint32_t kLabelMask = 0xFFFFF;
constexpr std::uint32_t kLowMask = 0x3FFF;
constexpr int kLowBits = 14;
// Folds to no bits at all, as 0 does.
constexpr std::uint32_t kLabelOfFirstPort = 1U << kLowBits | 1U;

}  // namespace

std::uint16_t SourcePortOf(std::uint32_t flow_label, std::uint32_t local_number,
                           std::uint32_t remote_number) {
  std::uint32_t label = flow_label & kLabelMask;
  if (label == 0) {
    std::uint64_t product = std::uint64_t{local_number} * remote_number;
    product ^= product >> 20;
    product ^= product >> 40;
    label = static_cast<std::uint32_t>(product) & kLabelMask;
  }
  return static_cast<std::uint16_t>(kFirstRocePort | ((label & kLowMask) ^ (label >> kLowBits)));
}

Result<std::uint32_t> FlowLabelFor(std::uint16_t source_port) {
  if (source_port < kFirstRocePort) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("source port {}: RoCE has {} to 65535", source_port, kFirstRocePort));
  }
  const std::uint32_t low = source_port & kLowMask;
  return low == 0 ? kLabelOfFirstPort : low;
}

}  // namespace espalier::verbs
