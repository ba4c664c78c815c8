#include "controller/paths/unreachable_pairs.h"

#include <algorithm>
#include <chrono>

namespace espalier::controller {
namespace {

constexpr Duration kInterval = std::chrono::seconds(5);
constexpr std::size_t kPairsAtOnce = 16;

}  // namespace

void UnreachablePairs::Forget(const RehashScope& scope) {
  std::erase_if(pairs_, [&](const auto& pair) {
    return scope.Contains(pair.first.first, pair.first.second);
  });
}

std::vector<fabric::PortKey> UnreachablePairs::Take(TimePoint now, const Holds& holds) {
  std::vector<fabric::PortKey> keys;
  if (now < next_ || pairs_.empty()) return keys;
  next_ = now + kInterval;
  ++rounds_;
  for (std::size_t left = std::min(kPairsAtOnce, pairs_.size()); left > 0; --left) {
    auto pair = pairs_.upper_bound(last_);
    if (pair == pairs_.end()) pair = pairs_.begin();
    last_ = pair->first;
    if (holds(pair->first, pair->second)) {
      keys.push_back(pair->second);
    } else {
      pairs_.erase(pair);
    }
  }
  return keys;
}

}  // namespace espalier::controller
