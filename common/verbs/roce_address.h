#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"

namespace espalier::verbs {

// An address from which an RDMA device of this host can send RoCEv2: an entry of a port's GID
// table.
struct RoceAddress {
  std::string device;  // "mlx5_0", "rxe0"
  std::uint8_t port = 1;
  int gid_index = 0;
  IpAddress address;
  std::string interface;   // the network interface; empty: unknown
  int path_mtu_bytes = 0;  // maximum of the port
};

// Lists all addresses by device, port and GID index, except link-local ones, which switches do not
// route. Empty without RDMA devices. Skips devices that disappear meanwhile.
std::vector<RoceAddress> ListRoceAddresses();
// Errors: kNotFound, with the list of known addresses.
Result<RoceAddress> FindRoceAddress(const IpAddress& address);

}  // namespace espalier::verbs
