#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace espalier::runtime {

enum class Medium : std::uint8_t { kShared, kTcp, kVerbs };

// "shm", "tcp", "verbs".
std::string_view MediumName(Medium medium);
std::optional<Medium> FindMedium(std::string_view name);

}  // namespace espalier::runtime
