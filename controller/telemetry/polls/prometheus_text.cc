#include "controller/telemetry/polls/prometheus_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace espalier::telemetry {
namespace {

// The values of a port as they are in the text.
struct Values {
  std::optional<double> carrier;
  std::optional<double> up;
  std::optional<double> oper_state;  // 1: up, 2: down
  std::optional<double> rx_bytes;
  std::optional<double> tx_bytes;
  std::optional<double> speed_bytes;
  std::optional<double> speed_mbps;
};

struct Metric {
  std::string_view name;
  std::optional<double> Values::*value;
};
constexpr std::array kMetrics = std::to_array<Metric>({
    {"node_network_carrier", &Values::carrier},
    {"node_network_up", &Values::up},
    {"node_network_receive_bytes_total", &Values::rx_bytes},
    {"node_network_transmit_bytes_total", &Values::tx_bytes},
    {"node_network_speed_bytes", &Values::speed_bytes},
    {"nvswitch_interface_oper_state", &Values::oper_state},
    {"nvswitch_interface_if_in_octets", &Values::rx_bytes},
    {"nvswitch_interface_if_out_octets", &Values::tx_bytes},
    {"ifOperStatus", &Values::oper_state},
    {"ifHCInOctets", &Values::rx_bytes},
    {"ifHCOutOctets", &Values::tx_bytes},
    {"ifHighSpeed", &Values::speed_mbps},
});

bool IsPortLabel(std::string_view name) {
  return name == "device" || name == "interface" || name == "ifName";
}

// Parses one sample from left to right; what it has read is taken off the front.
class SampleParser {
 public:
  explicit SampleParser(std::string_view line) : rest_(line) {}

  std::string_view Name() {
    const std::size_t end = std::min(rest_.find_first_of("{ \t"), rest_.size());
    const std::string_view name = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return name;
  }
  // The value of the label that names the port; none if there is no such label, or the labels are
  // malformed.
  std::optional<std::string> PortName() {
    SkipSpace();
    if (!Skip('{')) return std::nullopt;
    std::optional<std::string> port;
    while (!Skip('}')) {
      SkipSpace();
      const std::size_t end = std::min(rest_.find('='), rest_.size());
      const std::string_view label = rest_.substr(0, end);
      rest_.remove_prefix(end);
      if (!Skip('=') || !Skip('"')) return std::nullopt;
      std::optional<std::string> value = Quoted();
      if (!value) return std::nullopt;
      if (IsPortLabel(label)) port = std::move(value);
      SkipSpace();
      Skip(',');
      SkipSpace();
    }
    return port;
  }
  // The value; none if it is not a finite number. A timestamp may follow.
  std::optional<double> Value() {
    SkipSpace();
    Skip('+');
    double value = 0;
    const char* const end = rest_.data() + rest_.size();
    const auto [at, error] = std::from_chars(rest_.data(), end, value);
    const bool is_whole = at == end || *at == ' ' || *at == '\t' || *at == '\r';
    if (error != std::errc() || !is_whole || !std::isfinite(value)) return std::nullopt;
    return value;
  }

 private:
  bool Skip(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void SkipSpace() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size())); }
  // A text whose opening quotation mark is read, up to the closing one.
  std::optional<std::string> Quoted() {
    std::string text;
    for (std::size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        return text;
      }
      if (rest_[i] == '\\' && ++i == rest_.size()) break;
      text += rest_[i];
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

PortState StateOf(const Values& values) {
  const bool is_off = !values.carrier && values.up == 0;
  if (values.oper_state == 2 || values.carrier == 0 || is_off) return PortState::kDown;
  const bool is_up = values.oper_state == 1 || values.carrier == 1;
  return is_up ? PortState::kUp : PortState::kUnknown;
}

// The bytes of a counter; a value that cannot be one is counted as refused.
std::optional<std::uint64_t> BytesOf(const std::optional<double>& value, std::size_t& refused) {
  if (!value) return std::nullopt;
  const std::optional<std::uint64_t> bytes = ByteCount(*value);
  if (!bytes) ++refused;
  return bytes;
}

}  // namespace

Result<PortReadings> ReadPrometheusText(std::string_view text, const IsKnownPort& is_known) {
  PortReadings readings;
  PortLimit limit(is_known);
  std::map<std::string, Values> ports;
  while (!text.empty()) {
    SampleParser sample(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    const std::string_view name = sample.Name();
    const auto* const metric = std::ranges::find(kMetrics, name, &Metric::name);
    if (metric == kMetrics.end()) continue;
    const std::optional<std::string> port = sample.PortName();
    const std::optional<double> value = sample.Value();
    if (!port || !value) {
      ++readings.refused;
      continue;
    }
    auto found = ports.find(*port);
    if (found == ports.end()) {
      if (!limit.Admit(*port)) {
        ++readings.left_out;
        continue;
      }
      found = ports.emplace(*port, Values{}).first;
    }
    std::optional<double>& known = found->second.*metric->value;
    if (known) ++readings.refused;
    if (!known) known = value;
  }
  for (const auto& [name, values] : ports) {
    PortReading port{.name = name, .state = StateOf(values)};
    port.rx_bytes = BytesOf(values.rx_bytes, readings.refused);
    port.tx_bytes = BytesOf(values.tx_bytes, readings.refused);
    // Interfaces that know no speed have a negative one.
    port.speed_bps =
        std::max({0.0, 8 * values.speed_bytes.value_or(0), 1e6 * values.speed_mbps.value_or(0)});
    readings.ports.push_back(std::move(port));
  }
  return readings;
}

}  // namespace espalier::telemetry
