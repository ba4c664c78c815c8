#include "collective/transport/rendezvous/group_credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace espalier::transport {
namespace {

bool IsLoopback(const IpAddress& address) {
  static const IpPrefix v4 = IpPrefix::Parse("127.0.0.0/8").value();
  static const IpPrefix v6 = IpPrefix::Parse("::1/128").value();
  return v4.Contains(address) || v6.Contains(address);
}

}  // namespace

Result<void> GroupCredentials::CheckMeetsAt(const IpAddress& address) const {
  if (key || trusts_network || IsLoopback(address)) return {};
  return Fail(
      ErrorCode::kPermissionDenied,
      fmt::format("a group that meets at {} needs a key that its ranks share: give every rank "
                  "ESPALIER_JOB_KEY_FILE, a file of 64 hexadecimal digits that only its user can "
                  "read (`openssl rand -hex 32` makes them); or start the job by `espalier job "
                  "start`, which gives it one; or set ESPALIER_INSECURE_GROUPS=1 where every "
                  "machine and user of the network is trusted",
                  address.ToString()));
}

Result<void> GroupCredentials::CheckIsAt(int rank, const IpAddress& address) const {
  const auto holds = [&](const IpPrefix& network) { return network.Contains(address); };
  if (!networks.empty() && std::ranges::none_of(networks, holds)) {
    return Fail(ErrorCode::kPermissionDenied,
                fmt::format("it says that it is at {}, which is in no network where this group's "
                            "ranks may be",
                            address.ToString()));
  }
  const auto number = static_cast<std::size_t>(rank);
  if (number >= addresses.size() || addresses[number] == address) return {};
  return Fail(ErrorCode::kPermissionDenied,
              fmt::format("it says that it is at {}, but by the job's plan it is at {}",
                          address.ToString(), addresses[number].ToString()));
}

}  // namespace espalier::transport
