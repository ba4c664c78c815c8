#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"

namespace espalier::verbs {

// One address that RDMA devices of this host can send RoCEv2 from: an entry of a port's GID table.
struct RoceAddress {
  std::string device;  // "mlx5_0", "rxe0"
  std::uint8_t port = 1;
  int gid_index = 0;
  IpAddress address;
  std::string interface;   // the network interface; empty: unknown
  int path_mtu_bytes = 0;  // the most that the port can do
};

// All of them, by device, port and GID index; link-local ones, which no switch routes, are left
// out. None where there is no RDMA device. Devices that vanish meanwhile are left out.
std::vector<RoceAddress> ListRoceAddresses();
// Errors: kNotFound, with what there is.
Result<RoceAddress> FindRoceAddress(const IpAddress& address);

}  // namespace espalier::verbs
