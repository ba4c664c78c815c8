#pragma once

#include <memory>
#include <string>

#include "agent/dpdk/offload/device_rules.h"

namespace espalier::dpdk {

// Makes rules of rte_flow in the embedded switch of the device that has both ports (attribute
// "transfer"):
//   represented_port HOST / eth / [vlan] / ipv4|ipv6 addresses / udp ports / queue pair
//   -> set source port / count / represented_port FABRIC
// The queue pair is matched by the item for the transport header if DPDK has it (23.07), else by
// three raw bytes after the UDP header. A rule that matched only ports would also take packets of
// other queue pairs, and cores would never see new flows among them.
//
// Drivers accept different forms of a rule. All forms are tried with the first rule, and the first
// accepted one is kept.
//
// `group`: the group of the rules. It is not 0 for devices that match transport headers only in
// other groups. Then a rule in group 0 sends RoCEv2 packets of the host to that group, and a rule
// in that group sends packets without a rule to the cores.
//
// Thread safety: one thread. The destructor removes the rules; it must run before the ports close.
class RteRules : public DeviceRules {
 public:
  struct Options {
    std::uint16_t host_port = 0;  // DPDK's numbers of open ports
    std::uint16_t fabric_port = 0;
    std::uint32_t group = 0;
  };

  // Errors: those of Create, for the rules of `group`.
  static Result<std::unique_ptr<RteRules>> Open(const Options& options);
  ~RteRules() override { RteRules::Flush(); }
  RteRules(const RteRules&) = delete;
  RteRules& operator=(const RteRules&) = delete;

  Result<RuleId> Create(const DeviceRule& rule) override;
  bool Destroy(RuleId rule) override;
  std::optional<DeviceCounts> Read(RuleId rule) override;
  void Flush() override;

 private:
  // A form of a rule.
  struct Form {
    bool modifies_field = false;  // sets the port by MODIFY_FIELD rather than SET_TP_SRC
    bool is_ingress = false;      // has the attribute "ingress", which some drivers need, too
  };

  explicit RteRules(const Options& options);
  Result<RuleId> Create(const DeviceRule& rule, const Form& form);
  Result<void> CreateGroupRules();

  const Options options_;
  std::uint16_t proxy_;  // the port to which rules are given
  std::optional<Form> form_;
};

}  // namespace espalier::dpdk
