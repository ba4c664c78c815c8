#pragma once

#include <cstddef>
#include <map>

#include "common/base/users/user_budget.h"

namespace espalier::agent {

// How many elephants a user has.
struct ElephantCounts {
  std::size_t active = 0;
  std::size_t quiet = 0;  // they have sent nothing for a while
};

// Divides places for elephants among the users of a host and returns how many of each user's
// elephants get one. Each of n users gets at least places / n, or all that it wants. Of the other
// places, active elephants get what they need before quiet ones get any, and users with more get no
// more than others until those have all that they want (max-min fairness). Within a user's places,
// active elephants come first. So neither a user's quiet elephants nor lies about activity can take
// another user's part. Complexity: O(n log n).
std::map<BudgetOwner, ElephantCounts> DivideElephants(
    const std::map<BudgetOwner, ElephantCounts>& wanted, std::size_t places);

}  // namespace espalier::agent
