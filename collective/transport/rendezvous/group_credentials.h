#pragma once

#include <optional>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/ip_prefix.h"
#include "common/base/job_key.h"
#include "common/base/result.h"

namespace espalier::transport {

// By what the ranks of a group that meets over a network know one another.
struct GroupCredentials {
  // All ranks have it, and nobody else. None: whoever reaches the ranks can join them, so they only
  // meet at loopback addresses.
  std::optional<JobKey> key;
  // Without a key at any address: for networks where every machine and user is trusted.
  bool trusts_network = false;
  // By rank: where each may be; none: wherever it says that it is.
  std::vector<IpAddress> addresses;
  // Where any of them may be; none: anywhere.
  std::vector<IpPrefix> networks;

  // Errors: kPermissionDenied, with the remedy, for an address that a group without a key is not to
  // meet at.
  Result<void> CheckMeetsAt(const IpAddress& address) const;
  // Errors: kPermissionDenied for a rank that says it is somewhere else than it may be.
  Result<void> CheckIsAt(int rank, const IpAddress& address) const;
};

}  // namespace espalier::transport
