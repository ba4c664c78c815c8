#include "agent/flows/elephant_shares.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace espalier::agent {
namespace {

using Count = std::size_t ElephantCounts::*;

struct User {
  BudgetOwner owner = 0;
  ElephantCounts left;  // without a place
  ElephantCounts placed;
};

void Place(User& user, Count kind, std::size_t count) {
  user.placed.*kind += count;
  user.left.*kind -= count;
}

// Gives each user the same number of places, or as many as it wants of this kind.
void Fill(std::vector<User>& users, Count kind, std::size_t& places) {
  std::ranges::stable_sort(users, {}, [kind](const User& user) { return user.left.*kind; });
  std::size_t rest = users.size();
  for (User& user : users) {
    const std::size_t count = std::min(user.left.*kind, places / rest--);
    Place(user, kind, count);
    places -= count;
  }
}

}  // namespace

std::map<BudgetOwner, ElephantCounts> DivideElephants(
    const std::map<BudgetOwner, ElephantCounts>& wanted, std::size_t places) {
  std::vector<User> users;
  for (const auto& [owner, counts] : wanted) users.push_back({owner, counts, {}});
  const std::size_t guaranteed = users.empty() ? 0 : places / users.size();
  for (User& user : users) {
    std::size_t left = guaranteed;
    for (const Count kind : {&ElephantCounts::active, &ElephantCounts::quiet}) {
      const std::size_t count = std::min(user.left.*kind, left);
      Place(user, kind, count);
      left -= count;
    }
    places -= guaranteed - left;
  }
  Fill(users, &ElephantCounts::active, places);
  Fill(users, &ElephantCounts::quiet, places);
  std::map<BudgetOwner, ElephantCounts> shares;
  for (const User& user : users) shares.emplace(user.owner, user.placed);
  return shares;
}

}  // namespace espalier::agent
