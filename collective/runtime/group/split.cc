#include "collective/runtime/group/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace espalier::runtime {

CommunicatorOptions OptionsOfPart(const Communicator& whole, const std::vector<int>& ranks) {
  CommunicatorOptions options = whole.options();
  options.join_by.reset();
  options.plan_port = 0;
  options.algorithm.clear();
  if (!options.members.addresses.empty()) {
    options.members.addresses.clear();
    for (const int rank : ranks) {
      options.members.addresses.push_back(
          whole.options().members.addresses[static_cast<std::size_t>(rank)]);
    }
  }
  return options;
}

Result<std::unique_ptr<Communicator>> Split(Communicator& group, int color, int key) {
  struct Choice {
    std::int64_t color;
    std::int64_t key;
  };
  const Choice own = {color, key};
  std::vector<Choice> all(static_cast<std::size_t>(group.size()));
  auto gathered = group.AllGather(&own, all.data(), 2, reduce::DataType::kI64);
  if (!gathered) return Propagate(gathered);
  std::vector<int> ranks;
  for (int rank = 0; rank < group.size(); ++rank) {
    const Choice& choice = all[static_cast<std::size_t>(rank)];
    if (choice.color < kNoColor) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("rank {} passes color {} (write 0 or more, or {} for no group)", rank,
                              choice.color, kNoColor));
    }
    if (choice.color == color) ranks.push_back(rank);
  }
  if (color == kNoColor) return nullptr;
  std::ranges::stable_sort(ranks, {},
                           [&](int rank) { return all[static_cast<std::size_t>(rank)].key; });
  const auto number = std::ranges::find(ranks, group.rank()) - ranks.begin();
  return Communicator::Join(
      group.store(), fmt::format("{}/split.{}.{}", group.name(), group.calls(), color),
      static_cast<int>(number), static_cast<int>(ranks.size()), OptionsOfPart(group, ranks));
}

}  // namespace espalier::runtime
