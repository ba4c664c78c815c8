#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "common/base/result.h"
#include "controller/telemetry/polls/port_readings.h"

namespace espalier::telemetry {

// A form in which switches say how their ports are. Any of them may come from a URL or a command.
struct PortReader {
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;  // of an answer

  std::string_view name;  // in the configuration
  Result<PortReadings> (*parse)(std::string_view text, const IsKnownPort& is_known);

  // Reads an answer, whatever it contains.
  // Errors: kInvalidArgument, in printable characters, also if the answer names no port;
  // kResourceExhausted beyond kMostBytes. Pure.
  Result<PortReadings> Read(std::string_view text, const IsKnownPort& is_known) const;
};

// All of them: "prometheus", "frr", "ports".
std::span<const PortReader> PortReaders();
// Null: there is none of this name.
const PortReader* FindPortReader(std::string_view name);

}  // namespace espalier::telemetry
