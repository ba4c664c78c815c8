#include "collective/runtime/calls/medium.h"

#include <array>

namespace espalier::runtime {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"shm", "tcp", "verbs"};

}  // namespace

std::string_view MediumName(Medium medium) { return kNames[static_cast<std::size_t>(medium)]; }

std::optional<Medium> FindMedium(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Medium>(i);
  }
  return std::nullopt;
}

}  // namespace espalier::runtime
