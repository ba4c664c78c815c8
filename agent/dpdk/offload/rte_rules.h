#pragma once

#include <memory>
#include <string>

#include "agent/dpdk/offload/device_rules.h"

namespace espalier::dpdk {

// Rules of rte_flow in the switch of the device that has both ports (attribute "transfer"):
//   represented_port HOST / eth / [vlan] / ipv4|ipv6 addresses / udp ports / queue pair
//   -> set source port / count / represented_port FABRIC
// The queue pair is matched by the item of the transport header where DPDK has it (23.07), else by
// three raw bytes behind the UDP header. A rule of ports alone would take packets of other queue
// pairs too, and new flows among them would never be seen, so there is none.
//
// Drivers differ in what they take: each way to say it is tried with the first rule, and the one
// that was taken is kept.
//
// `group`: 0, or that of the rules for devices that match transport headers in others alone. Then
// group 0 gets a rule that sends RoCEv2 packets of the host there, and that group one that sends
// those of no rule to the cores.
//
// Thread safety: one thread. Rules end with this object, which ends before the ports.
class RteRules : public DeviceRules {
 public:
  struct Options {
    std::uint16_t host_port = 0;  // DPDK's numbers of open ports
    std::uint16_t fabric_port = 0;
    std::uint32_t group = 0;
  };

  // Errors: as of Create, for the rules of `group`.
  static Result<std::unique_ptr<RteRules>> Open(const Options& options);
  ~RteRules() override { RteRules::Flush(); }
  RteRules(const RteRules&) = delete;
  RteRules& operator=(const RteRules&) = delete;

  Result<RuleId> Create(const DeviceRule& rule) override;
  bool Destroy(RuleId rule) override;
  std::optional<DeviceCounts> Read(RuleId rule) override;
  void Flush() override;

 private:
  // A way to say a rule.
  struct Form {
    bool modifies_field = false;  // by the general action, not by that for ports
    bool is_ingress = false;      // the attribute, which some drivers want besides
  };

  explicit RteRules(const Options& options);
  Result<RuleId> Create(const DeviceRule& rule, const Form& form);
  Result<void> LeadToGroup();

  const Options options_;
  std::uint16_t proxy_;  // the port that takes rules
  std::optional<Form> form_;
};

}  // namespace espalier::dpdk
