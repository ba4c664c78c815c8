#pragma once

#include <string>
#include <vector>

#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "common/base/result.h"

namespace espalier::transport {

// Which ranks of a group share a host.
struct HostMap {
  std::vector<int> host_of;  // by rank; hosts are numbered by their first rank

  int CountHosts() const;
  std::vector<int> RanksOf(int host) const;
  // The number of ranks of each host, if they are equally many and ranks of a host follow one
  // another; else 0.
  int RanksPerHost() const;
};

// Numbers hosts by their names.
HostMap MapHosts(const std::vector<std::string>& host_of_rank);

// Exchanges the names of hosts through the store: ranks that give the same name share a host.
// Errors: kUnavailable for ranks that do not join in time, kFailedPrecondition for a map of another
// version.
Result<HostMap> AgreeOnHosts(RendezvousStore& store, const std::string& group, int rank, int size,
                             const std::string& host, Deadline deadline);

}  // namespace espalier::transport
