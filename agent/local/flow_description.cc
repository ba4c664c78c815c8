#include "agent/local/flow_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace espalier::agent {
namespace {

constexpr std::uint32_t kQpnLimit = 1U << 24;

IpAddress ReadAddress(const std::uint8_t (&bytes)[16]) {
  IpAddress::Bytes copy;
  std::memcpy(copy.data(), bytes, copy.size());
  return IpAddress(copy);
}

Error Invalid(std::string_view field, std::string_view what) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", field, what)};
}

}  // namespace

bool IsFabricAddress(const IpAddress& address) {
  constexpr std::uint32_t kThisNetwork = 0;
  constexpr std::uint32_t kLoopback = 127;
  constexpr std::uint32_t kFirstMulticast = 224;
  if (address.IsV4()) {
    const std::uint32_t first = address.V4() >> 24U;
    const bool is_link_local = address.V4() >> 16U == 0xA9FE;  // 169.254.0.0/16
    return first != kThisNetwork && first != kLoopback && first < kFirstMulticast && !is_link_local;
  }
  const IpAddress::Bytes& bytes = address.bytes();
  const bool is_unspecified_or_loopback =
      std::all_of(bytes.begin(), bytes.end() - 1, [](std::uint8_t byte) { return byte == 0; }) &&
      bytes.back() <= 1;
  const bool is_link_local = bytes[0] == 0xFE && (bytes[1] & 0xC0U) == 0x80;
  return !is_unspecified_or_loopback && !is_link_local && bytes[0] != 0xFF;
}

bool IsJobName(std::string_view name) {
  return name.size() < ESPALIER_JOB_BYTES &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

Result<FlowSample> ReadFlowDescription(const espalier_flow_desc& description) {
  const auto fail = [](std::string_view field, std::string_view what) {
    return tl::unexpected<Error>(Invalid(field, what));
  };
  const std::string_view job(description.job, strnlen(description.job, ESPALIER_JOB_BYTES));
  if (!IsJobName(job)) return fail("job", "must be printable ASCII");
  FlowSample sample;
  sample.job = job;
  sample.source = ReadAddress(description.source);
  sample.destination = ReadAddress(description.destination);
  if (sample.source.IsNone()) return fail("source", "address is missing");
  if (sample.destination.IsNone()) return fail("destination", "address is missing");
  if (description.protocol != wire::kProtocolTcp && description.protocol != wire::kProtocolUdp) {
    return fail("protocol", "must be 6 (TCP) or 17 (UDP)");
  }
  if (description.max_paths < 1 || description.max_paths > ESPALIER_MAX_PATHS) {
    return fail("max_paths", "must be 1 to 16");
  }
  if (description.movable > 1) return fail("movable", "must be 0 or 1");
  if (description.destination_port == 0) return fail("destination_port", "must not be 0");
  if (description.local_qpn >= kQpnLimit) return fail("local_qpn", "must fit 24 bits");
  if (description.remote_qpn >= kQpnLimit) return fail("remote_qpn", "must fit 24 bits");
  sample.protocol = description.protocol;
  sample.destination_port = description.destination_port;
  sample.source_port = description.source_port;
  sample.local_qpn = description.local_qpn;
  sample.remote_qpn = description.remote_qpn;
  sample.max_paths = description.max_paths;
  sample.movable = description.movable != 0;
  // Unknown flags may come from a later library.
  sample.keeps_rate = (description.flags & ESPALIER_FLOW_KEEPS_RATE) != 0;
  sample.keeps_weights = (description.flags & ESPALIER_FLOW_KEEPS_WEIGHTS) != 0;
  sample.announced.is_alone = (description.flags & ESPALIER_FLOW_ALONE) != 0;
  sample.announced.path_fixed = (description.flags & ESPALIER_FLOW_PATH_FIXED) != 0;
  return sample;
}

}  // namespace espalier::agent
