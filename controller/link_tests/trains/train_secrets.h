#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "controller/state/flows/flow_table.h"

namespace espalier::controller {

// Makes the numbers of trains and the keys of their senders, which nobody can predict: SipHash-2-4
// under a secret of the process.
// Thread safety: none.
class TrainSecrets {
 public:
  // `seed`: of simulations, which must repeat. Not set: the secret is drawn from the kernel.
  explicit TrainSecrets(std::optional<std::uint64_t> seed);

  std::uint64_t NextNumber();
  // 16 bytes, always the same for an agent.
  std::string KeyOf(AgentId sender) const;

 private:
  std::uint64_t key0_ = 0;
  std::uint64_t key1_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace espalier::controller
