#include "controller/telemetry/polls/port_json.h"

#include <charconv>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "common/files/json.h"
#include "common/files/json_fields.h"

namespace espalier::telemetry {
namespace {

using Kind = io::JsonValue::Kind;

constexpr std::string_view kName = "answer";  // stands for a file in messages

// The text of a member that is a string; "" if it is none.
std::string_view TextOf(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const value = object.Find(key);
  return value != nullptr && value->kind == Kind::kString ? value->text : std::string_view();
}

PortReading ReadFrrPort(const std::string& name, const io::JsonValue& port, std::size_t& refused) {
  PortReading reading{.name = name};
  const std::string_view operational = TextOf(port, "operationalStatus");
  if (TextOf(port, "administrativeStatus") == "down" || operational == "down") {
    reading.state = PortState::kDown;
  } else if (operational == "up") {
    reading.state = PortState::kUp;
  } else {
    ++refused;
  }
  const io::JsonValue* const speed = port.Find("speed");
  constexpr std::uint32_t kMostMbps = 100'000'000;  // more is FRR's mark of an unknown speed
  std::uint32_t mbps = 0;
  if (speed != nullptr && speed->kind == Kind::kNumber) {
    std::from_chars(speed->text.data(), speed->text.data() + speed->text.size(), mbps);
  }
  if (mbps <= kMostMbps) reading.speed_bps = 1e6 * mbps;
  return reading;
}

std::optional<std::uint64_t> ReadBytes(io::JsonFields& fields, std::string_view key) {
  if (!fields.Has(key)) return std::nullopt;
  return static_cast<std::uint64_t>(
      fields.Integer(key, 0, 0, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace

Result<PortReadings> ReadFrrJson(std::string_view text, const IsKnownPort& is_known) {
  const Result<io::JsonValue> json = io::ParseJson(text, kName);
  if (!json) return tl::unexpected(json.error());
  if (json->kind != Kind::kObject) {
    return Fail(ErrorCode::kInvalidArgument, "the answer is not an object of interfaces");
  }
  PortReadings readings;
  PortLimit limit(is_known);
  for (const auto& [name, port] : json->members) {
    if (port.kind != Kind::kObject) {
      ++readings.refused;
    } else if (!limit.Admit(name)) {
      ++readings.left_out;
    } else {
      readings.ports.push_back(ReadFrrPort(name, port, readings.refused));
    }
  }
  return readings;
}

Result<PortReadings> ReadPortsJson(std::string_view text, const IsKnownPort& is_known) {
  const Result<io::JsonValue> json = io::ParseJson(text, kName);
  if (!json) return tl::unexpected(json.error());
  io::JsonFields answer(*json, kName);
  PortReadings readings;
  PortLimit limit(is_known);
  std::set<std::string> names;
  for (const io::JsonValue& item : answer.RequiredArray("ports")) {
    io::JsonFields fields(item, kName);
    PortReading port{.name = fields.RequiredString("name")};
    const std::string state = fields.String("state", "unknown");
    port.rx_bytes = ReadBytes(fields, "rx_bytes");
    port.tx_bytes = ReadBytes(fields, "tx_bytes");
    port.speed_bps = static_cast<double>(
        fields.Integer("speed_bps", 0, 0, std::numeric_limits<std::int64_t>::max()));
    if (Result<void> finished = fields.Finish(); !finished) return Propagate(finished);
    if (state == "up") port.state = PortState::kUp;
    if (state == "down") port.state = PortState::kDown;
    if (state != PortStateName(port.state) || names.contains(port.name)) {
      ++readings.refused;
    } else if (!limit.Admit(port.name)) {
      ++readings.left_out;
    } else {
      names.insert(port.name);
      readings.ports.push_back(std::move(port));
    }
  }
  if (Result<void> finished = answer.Finish(); !finished) return Propagate(finished);
  return readings;
}

}  // namespace espalier::telemetry
