#include "agent/dpdk/offload/rte_rules.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_flow.h>
#include <rte_version.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <iterator>

#include "agent/dpdk/packet/roce_packet.h"

namespace espalier::dpdk {
namespace {

constexpr std::size_t kQueuePairBytes = 3;

// A pattern for RoCEv2 packets of a port, from the outermost header on. Its items are valid as long
// as this object.
class Pattern {
 public:
  explicit Pattern(std::uint16_t port) {
    port_.port_id = port;
    port_mask_.port_id = 0xFFFF;
    udp_.hdr.dst_port = Swap16(kRoceV2UdpPort);
    udp_mask_.hdr.dst_port = 0xFFFF;
    Add(RTE_FLOW_ITEM_TYPE_REPRESENTED_PORT, &port_, &port_mask_);
    Add(RTE_FLOW_ITEM_TYPE_ETH);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  void AddVlan() { Add(RTE_FLOW_ITEM_TYPE_VLAN); }
  void AddIp(const FlowKey& key) {
    if (key.is_v4()) {
      std::memcpy(&v4_.hdr.src_addr, key.addresses, 4);
      std::memcpy(&v4_.hdr.dst_addr, key.addresses + 4, 4);
      v4_mask_.hdr.src_addr = v4_mask_.hdr.dst_addr = 0xFFFF'FFFF;
      return Add(RTE_FLOW_ITEM_TYPE_IPV4, &v4_, &v4_mask_);
    }
    std::memcpy(&v6_.hdr.src_addr, key.addresses, 16);
    std::memcpy(&v6_.hdr.dst_addr, key.addresses + 16, 16);
    std::memset(&v6_mask_.hdr.src_addr, 0xFF, 16);
    std::memset(&v6_mask_.hdr.dst_addr, 0xFF, 16);
    Add(RTE_FLOW_ITEM_TYPE_IPV6, &v6_, &v6_mask_);
  }
  void AddAnyIp(bool is_v4) { Add(is_v4 ? RTE_FLOW_ITEM_TYPE_IPV4 : RTE_FLOW_ITEM_TYPE_IPV6); }
  void AddUdp() { Add(RTE_FLOW_ITEM_TYPE_UDP, &udp_, &udp_mask_); }
  void AddUdp(std::uint16_t source_port) {
    udp_.hdr.src_port = Swap16(source_port);
    udp_mask_.hdr.src_port = 0xFFFF;
    AddUdp();
  }
  void AddQueuePair(std::uint32_t qpn) {
    queue_pair_ = {static_cast<std::uint8_t>(qpn >> 16), static_cast<std::uint8_t>(qpn >> 8),
                   static_cast<std::uint8_t>(qpn)};
#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)
    std::copy(queue_pair_.begin(), queue_pair_.end(), bth_.hdr.dst_qp);
    std::fill(std::begin(bth_mask_.hdr.dst_qp), std::end(bth_mask_.hdr.dst_qp), 0xFF);
    Add(RTE_FLOW_ITEM_TYPE_IB_BTH, &bth_, &bth_mask_);
#else
    raw_.relative = 1;
    raw_.offset = 5;  // from the end of the UDP header on
    raw_.length = kQueuePairBytes;
    raw_.pattern = queue_pair_.data();
    raw_mask_.relative = raw_mask_.search = 1;
    raw_mask_.offset = -1;
    raw_mask_.limit = raw_mask_.length = 0xFFFF;
    raw_mask_.pattern = queue_pair_mask_.data();
    Add(RTE_FLOW_ITEM_TYPE_RAW, &raw_, &raw_mask_);
#endif
  }

  // Unused items are END items.
  const rte_flow_item* items() const { return items_.data(); }

 private:
  void Add(rte_flow_item_type type, const void* spec = nullptr, const void* mask = nullptr) {
    items_[count_++] = {type, spec, nullptr, mask};
  }

  std::array<rte_flow_item, 8> items_{};
  std::size_t count_ = 0;
  rte_flow_item_ethdev port_{};
  rte_flow_item_ethdev port_mask_{};
  rte_flow_item_ipv4 v4_{};
  rte_flow_item_ipv4 v4_mask_{};
  rte_flow_item_ipv6 v6_{};
  rte_flow_item_ipv6 v6_mask_{};
  rte_flow_item_udp udp_{};
  rte_flow_item_udp udp_mask_{};
  std::array<std::uint8_t, kQueuePairBytes> queue_pair_{};
#if RTE_VERSION >= RTE_VERSION_NUM(23, 7, 0, 0)
  rte_flow_item_ib_bth bth_{};
  rte_flow_item_ib_bth bth_mask_{};
#else
  const std::array<std::uint8_t, kQueuePairBytes> queue_pair_mask_ = {0xFF, 0xFF, 0xFF};
  rte_flow_item_raw raw_{};
  rte_flow_item_raw raw_mask_{};
#endif
};
static_assert(RTE_FLOW_ITEM_TYPE_END == 0 && RTE_FLOW_ACTION_TYPE_END == 0);

Error Refused(std::uint16_t port, int status, const rte_flow_error& error) {
  const int cause = std::abs(status);
  ErrorCode code = ErrorCode::kUnavailable;
  if (cause == ENOTSUP || cause == ENOSYS || cause == EINVAL) code = ErrorCode::kUnsupported;
  if (cause == ENOSPC || cause == ENOMEM) code = ErrorCode::kResourceExhausted;
  return {code, fmt::format("port {}: {}: {}", port, rte_strerror(cause),
                            error.message != nullptr ? error.message : "no reason given")};
}

Result<rte_flow*> Make(std::uint16_t port, const rte_flow_attr& attributes,
                       const rte_flow_item* items, const rte_flow_action* actions) {
  rte_flow_error error{};
  const int status = rte_flow_validate(port, &attributes, items, actions, &error);
  if (status != 0) return tl::unexpected<Error>(Refused(port, status, error));
  error = {};
  rte_flow* const rule = rte_flow_create(port, &attributes, items, actions, &error);
  if (rule == nullptr) return tl::unexpected<Error>(Refused(port, rte_errno, error));
  return rule;
}

// NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast,performance-no-int-to-ptr)
rte_flow* Pointer(RuleId rule) { return reinterpret_cast<rte_flow*>(rule); }
RuleId Id(rte_flow* rule) { return static_cast<RuleId>(reinterpret_cast<std::uintptr_t>(rule)); }
// NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast,performance-no-int-to-ptr)

}  // namespace

RteRules::RteRules(const Options& options) : options_(options), proxy_(options.host_port) {
  std::uint16_t proxy = 0;
  if (rte_flow_pick_transfer_proxy(options.host_port, &proxy, nullptr) == 0) proxy_ = proxy;
}

Result<std::unique_ptr<RteRules>> RteRules::Open(const Options& options) {
  std::unique_ptr<RteRules> rules(new RteRules(options));
  if (options.group == 0) return rules;
  Result<void> created = rules->CreateGroupRules();
  if (!created) return Propagate(created);
  return rules;
}

Result<void> RteRules::CreateGroupRules() {
  rte_flow_attr attributes{};
  attributes.transfer = 1;
  // The rule of the group comes first, as packets arrive once the rules of group 0 exist.
  attributes.group = options_.group;
  attributes.priority = 2;
  Pattern all(options_.host_port);
  rte_flow_action_ethdev cores{};
  cores.port_id = options_.host_port;
  const std::array<rte_flow_action, 2> to_cores = {
      {{RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR, &cores}, {RTE_FLOW_ACTION_TYPE_END, nullptr}}};
  Result<rte_flow*> made = Make(proxy_, attributes, all.items(), to_cores.data());
  if (!made) return Propagate(made);
  attributes.group = 0;
  attributes.priority = 0;
  const rte_flow_action_jump group{options_.group};
  const std::array<rte_flow_action, 2> jump = {
      {{RTE_FLOW_ACTION_TYPE_JUMP, &group}, {RTE_FLOW_ACTION_TYPE_END, nullptr}}};
  for (const bool is_v4 : {true, false}) {
    Pattern roce(options_.host_port);
    roce.AddAnyIp(is_v4);
    roce.AddUdp();
    made = Make(proxy_, attributes, roce.items(), jump.data());
    if (!made) return Propagate(made);
  }
  return {};
}

Result<RuleId> RteRules::Create(const DeviceRule& rule) {
  if (form_) return Create(rule, *form_);
  Result<RuleId> made = Fail(ErrorCode::kUnsupported, "");
  for (const Form form :
       {Form{false, false}, Form{false, true}, Form{true, false}, Form{true, true}}) {
    made = Create(rule, form);
    if (made) form_ = form;
    if (made || made.error().code != ErrorCode::kUnsupported) break;
  }
  return made;
}

Result<RuleId> RteRules::Create(const DeviceRule& rule, const Form& form) {
  rte_flow_attr attributes{};
  attributes.group = options_.group;
  attributes.priority = rule.level;
  attributes.transfer = 1;
  attributes.ingress = form.is_ingress ? 1 : 0;
  Pattern pattern(options_.host_port);
  if (rule.vlan_tags > 0) pattern.AddVlan();
  pattern.AddIp(rule.key);
  pattern.AddUdp(rule.own_port);
  pattern.AddQueuePair(rule.key.qpn());

  rte_flow_action_set_tp set{};
  set.port = Swap16(rule.port);
  rte_flow_action_modify_field modify{};
  modify.operation = RTE_FLOW_MODIFY_SET;
  modify.dst.field = RTE_FLOW_FIELD_UDP_PORT_SRC;
  modify.src.field = RTE_FLOW_FIELD_VALUE;
  std::memcpy(modify.src.value, &set.port, sizeof(set.port));
  modify.width = 16;
  const rte_flow_action_count count{};
  rte_flow_action_ethdev fabric{};
  fabric.port_id = options_.fabric_port;
  const rte_flow_action by_port{RTE_FLOW_ACTION_TYPE_SET_TP_SRC, &set};
  const rte_flow_action by_field{RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &modify};
  const std::array<rte_flow_action, 4> actions = {{
      form.modifies_field ? by_field : by_port,
      {RTE_FLOW_ACTION_TYPE_COUNT, &count},
      {RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT, &fabric},
      {RTE_FLOW_ACTION_TYPE_END, nullptr},
  }};
  Result<rte_flow*> made = Make(proxy_, attributes, pattern.items(), actions.data());
  if (!made) return Propagate(made);
  return Id(*made);
}

bool RteRules::Destroy(RuleId rule) {
  rte_flow_error error{};
  return rte_flow_destroy(proxy_, Pointer(rule), &error) == 0;
}

std::optional<DeviceCounts> RteRules::Read(RuleId rule) {
  const std::array<rte_flow_action, 2> actions = {
      {{RTE_FLOW_ACTION_TYPE_COUNT, nullptr}, {RTE_FLOW_ACTION_TYPE_END, nullptr}}};
  rte_flow_query_count counts{};
  rte_flow_error error{};
  if (rte_flow_query(proxy_, Pointer(rule), actions.data(), &counts, &error) != 0 ||
      counts.hits_set == 0) {
    return std::nullopt;
  }
  return DeviceCounts{counts.hits, counts.bytes_set != 0 ? counts.bytes : 0};
}

void RteRules::Flush() {
  rte_flow_error error{};
  (void)rte_flow_flush(proxy_, &error);
}

}  // namespace espalier::dpdk
