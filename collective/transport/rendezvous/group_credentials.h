#pragma once

#include <optional>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/address/ip_prefix.h"
#include "common/base/result.h"
#include "common/base/users/job_key.h"

namespace espalier::transport {

// The credentials by which the ranks of a group recognise each other over a network.
struct GroupCredentials {
  // A secret of the group's ranks. Without a key anybody who reaches the ranks can join them, so
  // only loopback addresses are allowed.
  std::optional<JobKey> key;
  // Allows any address without a key, for networks where every machine and user is trusted.
  bool trusts_network = false;
  // The expected address of each rank; empty: any.
  std::vector<IpAddress> addresses;
  // The networks in which ranks may be; empty: any.
  std::vector<IpPrefix> networks;

  // Errors: kPermissionDenied, with the remedy, if the group has no key and may not use the address
  // without one.
  Result<void> CheckMeetsAt(const IpAddress& address) const;
  // Errors: kPermissionDenied for a rank that publishes an address where it may not be.
  Result<void> CheckIsAt(int rank, const IpAddress& address) const;
};

}  // namespace espalier::transport
