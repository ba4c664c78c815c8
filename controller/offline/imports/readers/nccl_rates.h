#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/units.h"

namespace espalier::imports {

// The rates that NCCL (graph/topo.h and topo.cc, 2.7 and later) supposes inside a box.

// Of a PCI link of `lanes` lanes; `speed` is what sysfs prints, such as "32.0 GT/s PCIe". None if
// the speed is not known.
std::optional<BitsPerSecond> PciRate(std::string_view speed, std::int64_t lanes);
// What NCCL supposes where a file does not say it: 8 GT/s and 16 lanes.
BitsPerSecond DefaultPciRate(std::int64_t lanes);
inline constexpr std::int64_t kDefaultPciLanes = 16;

// Of `count` NVLinks of a GPU with this compute capability (90: Hopper).
BitsPerSecond NvLinkRate(std::int64_t sm, std::int64_t count);

// Between two CPUs of a host.
BitsPerSecond InterCpuRate(std::string_view arch, std::string_view vendor, std::int64_t family,
                           std::int64_t model);

}  // namespace espalier::imports
