#pragma once

#include <atomic>
#include <cstdint>

#include "collective/runtime/offload/budgeted_memory.h"
#include "collective/runtime/offload/offload_service.h"
#include "common/base/users/user_budget.h"

namespace espalier::runtime {

// The budgets and the count of failures that all sessions of an offload service share.
struct OffloadBudgets {
  explicit OffloadBudgets(const OffloadOptions& options)
      : memory(options.max_memory), shared(options.max_shared_bytes) {}

  BudgetedMemory memory;  // of the offload service
  BudgetedMemory shared;  // of programs; only counted here
  std::atomic<std::uint64_t> failed{0};
};

// The budgets of one user.
struct OffloadUser {
  OffloadUser(BudgetOwner payer, const OffloadOptions& options, OffloadBudgets& budgets)
      : number(payer),
        memory(options.max_memory_per_user, &budgets.memory),
        shared(options.max_shared_bytes_per_user, &budgets.shared),
        all(budgets) {}

  const BudgetOwner number;
  BudgetedMemory memory;
  BudgetedMemory shared;
  OffloadBudgets& all;
};

}  // namespace espalier::runtime
