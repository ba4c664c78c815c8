#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::telemetry {

enum class PortState : std::uint8_t { kUnknown, kUp, kDown };
std::string_view PortStateName(PortState state);  // "unknown", "up", "down"

// What a switch says of one of its ports, in the form that all readers produce.
struct PortReading {
  std::string name;
  PortState state = PortState::kUnknown;
  std::optional<std::uint64_t> rx_bytes{};
  std::optional<std::uint64_t> tx_bytes{};
  double speed_bps = 0;  // 0: not known
};

// One answer of a switch.
struct PortReadings {
  std::vector<PortReading> ports;  // each name once
  std::size_t refused = 0;         // values that are no valid numbers or states, or occur twice
  std::size_t left_out = 0;        // mentions of ports for which there was no room
};

// Whether a port of this name is of interest. Must be safe to call from any thread.
using IsKnownPort = std::function<bool(std::string_view name)>;

// Limits how many ports an answer may have: those that are known, and so many others.
class PortLimit {
 public:
  static constexpr std::size_t kMostOthers = 1'024;
  static constexpr std::size_t kMostNameBytes = 256;

  explicit PortLimit(const IsKnownPort& is_known) : is_known_(is_known) {}
  // Whether there is room for another port, of this name.
  bool Admit(std::string_view name);

 private:
  const IsKnownPort& is_known_;
  std::size_t others_ = 0;
};

// A number of bytes; none if it is negative, not finite, or 2^63 or more.
std::optional<std::uint64_t> ByteCount(double value);
// Foreign text for logs and messages: at most `most` bytes, with '?' in place of all that is not
// printable ASCII, and of quotation marks and backslashes.
std::string Printable(std::string_view text, std::size_t most = 64);

}  // namespace espalier::telemetry
