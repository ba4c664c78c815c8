#pragma once

#include <cstddef>
#include <map>

#include "common/base/address/ip_address.h"
#include "common/base/time/event_loop.h"
#include "common/base/time/token_bucket.h"

namespace espalier::agent {

struct ProbeBudgetOptions {
  // Enough for some hundred elephants on a host, each checked by five probes a few times a second
  // at first. 4,000 probes a second are 2 Mbit/s.
  double per_second = 4'000;
  // Enough if all elephants between two hosts fail at once. At 1 Mbit/s it is no attack.
  double per_second_and_destination = 2'000;
  std::size_t burst_for_destination = 512;
  // Maximum number of remembered destinations. A further one waits until an old one has its full
  // share again.
  std::size_t max_destinations = 4'096;
};

// Limits the probes that programs can cause, in total and to each destination. Programs choose
// where their flows go and whether these make progress, and so where the path guard sends probes.
// Thread safety: none. Complexity: O(log destinations); O(destinations) if the table is full.
class ProbeBudget {
 public:
  ProbeBudget(const ProbeBudgetOptions& options, TimePoint now);

  // Takes room for all these probes. Returns false, and takes nothing, if there is not enough.
  bool Take(const IpAddress& destination, std::size_t probes, TimePoint now);

 private:
  bool MakeRoom(TimePoint now);

  const ProbeBudgetOptions options_;
  TokenBucket all_;
  std::map<IpAddress, TokenBucket> destinations_;
};

}  // namespace espalier::agent
