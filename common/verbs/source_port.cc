#include "common/verbs/source_port.h"

#include <fmt/format.h>

namespace espalier::verbs {

Result<std::uint32_t> FlowLabelFor(std::uint16_t source_port) {
  if (source_port < kFirstRocePort) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("source port {} is out of range (RoCE uses {} to 65535)", source_port,
                            kFirstRocePort));
  }
  return FlowLabelOf(source_port);
}

}  // namespace espalier::verbs
