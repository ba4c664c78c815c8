#pragma once

#include <cstdint>
#include <optional>

#include "agent/dpdk/flows/flow_key.h"
#include "common/base/result.h"

namespace espalier::dpdk {

// What a device is to do by itself with all packets of one queue pair that come from own_port:
// give them `port`, correct their invariant CRC, count them and send them to the fabric.
struct DeviceRule {
  FlowKey key;
  std::uint16_t own_port = 0;
  std::uint16_t port = 0;
  std::uint8_t vlan_tags = 0;  // 0 or 1, whatever is in it
  // 0 or 1. Of two rules for the same packets that of level 0 holds.
  std::uint8_t level = 0;
  bool operator==(const DeviceRule&) const = default;
};

struct DeviceCounts {
  std::uint64_t packets = 0;
  std::uint64_t frame_bytes = 0;
};

enum class RuleId : std::uintptr_t {};

// The rules of a device: RteRules (rte_flow), or one of a test.
// Thread safety: one thread.
class DeviceRules {
 public:
  virtual ~DeviceRules() = default;

  // Errors: kUnsupported where the device knows no such rule, kResourceExhausted where it has no
  // room for more, kUnavailable for all else; the message says what the device said.
  virtual Result<RuleId> Create(const DeviceRule& rule) = 0;
  // False where the device did not take it back: then nobody knows what it does.
  [[nodiscard]] virtual bool Destroy(RuleId rule) = 0;
  // None where the device does not tell.
  virtual std::optional<DeviceCounts> Read(RuleId rule) = 0;
  // All of them.
  virtual void Flush() = 0;
};

}  // namespace espalier::dpdk
