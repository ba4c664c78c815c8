#include "controller/telemetry/polls/port_readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "controller/telemetry/polls/port_json.h"
#include "controller/telemetry/polls/prometheus_text.h"

namespace espalier::telemetry {
namespace {

constexpr std::array kReaders = std::to_array<PortReader>({
    {"prometheus", &ReadPrometheusText},
    {"frr", &ReadFrrJson},
    {"ports", &ReadPortsJson},
});
constexpr std::size_t kMostMessage = 200;

}  // namespace

Result<PortReadings> PortReader::Read(std::string_view text, const IsKnownPort& is_known) const {
  if (text.size() > kMostBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the answer has more than {} bytes", kMostBytes));
  }
  Result<PortReadings> readings = parse(text, is_known);
  if (!readings) {
    return Fail(readings.error().code, Printable(readings.error().message, kMostMessage));
  }
  if (readings->ports.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the answer names no port (is it of the form \"{}\"?)", name));
  }
  return readings;
}

std::span<const PortReader> PortReaders() { return kReaders; }

const PortReader* FindPortReader(std::string_view name) {
  const auto* const found = std::ranges::find(kReaders, name, &PortReader::name);
  return found == kReaders.end() ? nullptr : found;
}

}  // namespace espalier::telemetry
