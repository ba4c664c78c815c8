#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "collective/runtime/offload/budgeted_memory.h"
#include "collective/runtime/offload/offload_service.h"

namespace espalier::runtime {

// What all sessions of an engine have in common: two budgets and two counts.
struct OffloadBudgets {
  explicit OffloadBudgets(const OffloadOptions& options)
      : memory(options.max_memory), shared(options.max_shared_bytes) {}

  BudgetedMemory memory;  // of the engine
  BudgetedMemory shared;  // of programs; only counted
  std::atomic<std::uint64_t> failed{0};
};

// And those of one user.
struct OffloadUser {
  OffloadUser(uid_t user, const OffloadOptions& options, OffloadBudgets& budgets)
      : uid(user),
        memory(options.max_memory_per_user, &budgets.memory),
        shared(options.max_shared_bytes_per_user, &budgets.shared),
        all(budgets) {}

  const uid_t uid;
  BudgetedMemory memory;
  BudgetedMemory shared;
  OffloadBudgets& all;
};

}  // namespace espalier::runtime
