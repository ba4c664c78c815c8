#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace espalier::runtime {

// kHosts: shared memory between ranks of a host, and TCP between hosts.
enum class Medium : std::uint8_t { kShared, kTcp, kVerbs, kHosts };

// "shm", "tcp", "verbs", "hosts".
std::string_view MediumName(Medium medium);
std::optional<Medium> FindMedium(std::string_view name);

}  // namespace espalier::runtime
