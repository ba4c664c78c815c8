#pragma once

#include <cstddef>
#include <map>

#include "common/base/event_loop.h"
#include "common/base/ip_address.h"
#include "common/base/token_bucket.h"

namespace espalier::agent {

struct ProbeBudgetOptions {
  // A host has some hundred elephants at most, each checked by five probes a few times a second at
  // first. That many probes are 2 Mbit/s.
  double per_second = 4'000;
  // All elephants between two hosts may fail at once. 1 Mbit/s is nobody's idea of an attack.
  double per_second_and_destination = 2'000;
  std::size_t burst_for_destination = 512;
  // Remembered at once. A new one beyond waits until an old one has its full share again.
  std::size_t max_destinations = 4'096;
};

// How many probes programs may cause, as they choose where their flows go to and whether these make
// progress: so many in all and to each destination, whatever they announce.
// Thread safety: none. Complexity: O(log destinations), O(destinations) where the table is full.
class ProbeBudget {
 public:
  ProbeBudget(const ProbeBudgetOptions& options, TimePoint now);

  // Takes room for all of them, or for none: false.
  bool Take(const IpAddress& destination, std::size_t probes, TimePoint now);

 private:
  bool MakeRoom(TimePoint now);

  const ProbeBudgetOptions options_;
  TokenBucket all_;
  std::map<IpAddress, TokenBucket> destinations_;
};

}  // namespace espalier::agent
