#pragma once

#include <cstdint>
#include <optional>

#include "agent/dpdk/flows/flow_key.h"
#include "common/base/result.h"

namespace espalier::dpdk {

// A rule by which a device itself handles all packets to one queue pair from own_port: it sets
// `port`, corrects the invariant CRC, counts the packets and sends them to the fabric.
struct DeviceRule {
  FlowKey key;
  std::uint16_t own_port = 0;
  std::uint16_t port = 0;
  std::uint8_t vlan_tags = 0;  // 0 or 1, with any contents
  // 0 or 1. Among two rules for the same packets, that of level 0 applies.
  std::uint8_t level = 0;
  bool operator==(const DeviceRule&) const = default;
};

struct DeviceCounts {
  std::uint64_t packets = 0;
  std::uint64_t frame_bytes = 0;
};

enum class RuleId : std::uintptr_t {};

// Creates, reads and removes the rules of a device: RteRules (rte_flow), or a device of a test.
// Thread safety: one thread.
class DeviceRules {
 public:
  virtual ~DeviceRules() = default;

  // Errors: kUnsupported if the device does not know such rules, kResourceExhausted if it has no
  // room for more, else kUnavailable; the message is the device's.
  virtual Result<RuleId> Create(const DeviceRule& rule) = 0;
  // Returns false if the device did not remove the rule, whose effect is then unknown.
  [[nodiscard]] virtual bool Destroy(RuleId rule) = 0;
  // Returns none if the device does not report counts.
  virtual std::optional<DeviceCounts> Read(RuleId rule) = 0;
  // Removes all rules.
  virtual void Flush() = 0;
};

}  // namespace espalier::dpdk
