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
      fmt::format("a group at address {} needs a key that its ranks share: set "
                  "ESPALIER_JOB_KEY_FILE for every rank to a file of 64 hexadecimal digits that "
                  "only its user can read (`openssl rand -hex 32` makes them); or start the job "
                  "with `espalier job start`, which gives it a key; or set "
                  "ESPALIER_INSECURE_GROUPS=1 if every machine and user of the network is trusted",
                  address.ToString()));
}

Result<void> GroupCredentials::CheckIsAt(int rank, const IpAddress& address) const {
  const auto holds = [&](const IpPrefix& network) { return network.Contains(address); };
  if (!networks.empty() && std::ranges::none_of(networks, holds)) {
    return Fail(ErrorCode::kPermissionDenied,
                fmt::format("it published the address {}, which is in none of the networks that "
                            "this group's ranks may use",
                            address.ToString()));
  }
  const auto number = static_cast<std::size_t>(rank);
  if (number >= addresses.size() || addresses[number] == address) return {};
  return Fail(ErrorCode::kPermissionDenied,
              fmt::format("it published the address {}, but the job's plan says {}",
                          address.ToString(), addresses[number].ToString()));
}

}  // namespace espalier::transport
