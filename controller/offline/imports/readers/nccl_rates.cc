#include "controller/offline/imports/readers/nccl_rates.h"

#include <array>
#include <utility>

namespace espalier::imports {
namespace {

constexpr std::int64_t kMegabit = 1'000'000;
constexpr std::int64_t kMbpsOfGigabyte = 8'000;

// Usable Mbit/s of a lane, by the number before "GT/s".
constexpr std::array<std::pair<std::string_view, std::int64_t>, 10> kLanes = {{{"2.5", 1'500},
                                                                               {"5", 3'000},
                                                                               {"5.0", 3'000},
                                                                               {"8", 6'000},
                                                                               {"8.0", 6'000},
                                                                               {"16", 12'000},
                                                                               {"16.0", 12'000},
                                                                               {"32", 24'000},
                                                                               {"32.0", 24'000},
                                                                               {"64.0", 48'000}}};

}  // namespace

std::optional<BitsPerSecond> PciRate(std::string_view speed, std::int64_t lanes) {
  const std::size_t unit = speed.find(" GT/s");
  if (unit == std::string_view::npos) return std::nullopt;
  for (const auto& [name, mbps] : kLanes) {
    if (name == speed.substr(0, unit)) return BitsPerSecond{mbps * lanes * kMegabit};
  }
  return std::nullopt;
}

BitsPerSecond DefaultPciRate(std::int64_t lanes) { return {6'000 * lanes * kMegabit}; }

BitsPerSecond NvLinkRate(std::int64_t sm, std::int64_t count) {
  const std::int64_t mbps = sm >= 100  ? 40'100 * 8
                            : sm >= 90 ? 20'600 * 8
                            : sm == 86 ? 12 * kMbpsOfGigabyte
                            : sm >= 70 ? 20 * kMbpsOfGigabyte
                                       : 18 * kMbpsOfGigabyte;
  return {mbps * count * kMegabit};
}

BitsPerSecond InterCpuRate(std::string_view arch, std::string_view vendor, std::int64_t family,
                           std::int64_t model) {
  std::int64_t gigabytes = 16;  // AMD
  if (arch == "ppc64") gigabytes = 32;
  if (arch == "arm64") gigabytes = 6;
  if (vendor == "GenuineIntel") {
    gigabytes = family == 6 && model >= 0xCF   ? 40
                : family == 6 && model >= 0x8F ? 22
                : family == 6 && model >= 0x55 ? 10
                                               : 6;
  }
  return {gigabytes * kMbpsOfGigabyte * kMegabit};
}

}  // namespace espalier::imports
