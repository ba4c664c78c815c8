#include "controller/telemetry/polls/port_readings.h"

#include <algorithm>

namespace espalier::telemetry {

std::string_view PortStateName(PortState state) {
  if (state == PortState::kUp) return "up";
  return state == PortState::kDown ? "down" : "unknown";
}

bool PortLimit::Admit(std::string_view name) {
  if (is_known_(name)) return true;
  if (name.empty() || name.size() > kMostNameBytes || others_ >= kMostOthers) return false;
  ++others_;
  return true;
}

std::optional<std::uint64_t> ByteCount(double value) {
  if (!(value >= 0 && value < 0x1p63)) return std::nullopt;  // also not a number
  return static_cast<std::uint64_t>(value);
}

std::string Printable(std::string_view text, std::size_t most) {
  std::string printable(text.substr(0, most));
  std::ranges::replace_if(
      printable, [](char c) { return c < ' ' || c > '~' || c == '"' || c == '\\'; }, '?');
  return printable + (text.size() > most ? "..." : "");
}

}  // namespace espalier::telemetry
