#include "common/verbs/roce_address.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <array>

#include "common/verbs/verbs.h"

namespace espalier::verbs {
namespace {

bool IsLinkLocal(const IpAddress& address) {
  return address.bytes()[0] == 0xFE && (address.bytes()[1] & 0xC0) == 0x80;
}

int BytesOf(ibv_mtu mtu) { return 128 << static_cast<int>(mtu); }

void ListAddressesOf(ibv_context& context, const std::string& device,
                     std::vector<RoceAddress>& addresses) {
  std::array<ibv_gid_entry, 1024> entries;
  const ssize_t count = ibv_query_gid_table(&context, entries.data(), entries.size(), 0);
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<std::size_t>(i)];
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    IpAddress::Bytes bytes;
    std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw), bytes.begin());
    const IpAddress address(bytes);
    if (address.IsNone() || IsLinkLocal(address)) continue;
    const auto port = static_cast<std::uint8_t>(entry.port_num);
    ibv_port_attr attributes = {};
    if (ibv_query_port(&context, port, &attributes) != 0) continue;
    std::array<char, IF_NAMESIZE> name{};
    const char* interface = if_indextoname(entry.ndev_ifindex, name.data());
    addresses.push_back({.device = device,
                         .port = port,
                         .gid_index = static_cast<int>(entry.gid_index),
                         .address = address,
                         .interface = interface == nullptr ? "" : interface,
                         .path_mtu_bytes = BytesOf(attributes.active_mtu)});
  }
}

}  // namespace

std::vector<RoceAddress> ListRoceAddresses() {
  std::vector<RoceAddress> addresses;
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    const Context context(ibv_open_device(devices[i]));
    if (context) ListAddressesOf(*context, ibv_get_device_name(devices[i]), addresses);
  }
  if (devices != nullptr) ibv_free_device_list(devices);
  const auto key = [](const RoceAddress& a) { return std::tie(a.device, a.port, a.gid_index); };
  std::sort(addresses.begin(), addresses.end(),
            [&](const RoceAddress& a, const RoceAddress& b) { return key(a) < key(b); });
  return addresses;
}

Result<RoceAddress> FindRoceAddress(const IpAddress& address) {
  const std::vector<RoceAddress> addresses = ListRoceAddresses();
  std::string known;
  for (const RoceAddress& candidate : addresses) {
    if (candidate.address == address) return candidate;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", candidate.address.ToString(),
                         candidate.device);
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("no RDMA device of this host has the RoCEv2 address {} (known: {})",
                          address.ToString(), known.empty() ? "none" : known));
}

}  // namespace espalier::verbs
