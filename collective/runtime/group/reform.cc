#include "collective/runtime/group/reform.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "collective/runtime/group/split.h"

namespace espalier::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long a request to the store may take, and how long to look for a key that may be missing.
constexpr milliseconds kStorePatience{5'000};
constexpr milliseconds kGlance{10};
constexpr milliseconds kLastGlance{250};
// Ranks that have come join at once, so a missing one has died.
constexpr milliseconds kJoinPatience{10'000};

bool Contains(const std::vector<int>& all, int one) {
  return std::ranges::find(all, one) != all.end();
}

// One attempt of the candidates, which are given by their numbers in the first group.
class Round {
 public:
  Round(Communicator& old, const Lineage& lineage, std::uint32_t round, std::vector<int> candidates)
      : old_(old),
        lineage_(lineage),
        name_(fmt::format("{}/reform.{}", lineage.base, round)),
        candidates_(std::move(candidates)),
        own_(lineage.numbers[static_cast<std::size_t>(old.rank())]) {}

  // Agrees on the members. Errors: those of the store; kFailedPrecondition.
  Result<std::vector<int>> ChooseMembers(transport::Deadline end) {
    auto told = old_.store().Set(KeyOf(own_), "here", steady_clock::now() + kStorePatience);
    if (!told) return Propagate(told);
    std::set<int> here = {own_};
    while (true) {
      const bool is_last = steady_clock::now() >= end;
      auto decided = Glance(name_ + "/members", kGlance);
      if (!decided && (LookFor(here, is_last ? kLastGlance : kGlance) || is_last)) {
        auto proposed =
            old_.store().SetOnce(name_ + "/members", fmt::format("{}", fmt::join(here, " ")),
                                 steady_clock::now() + kStorePatience);
        if (!proposed) return Propagate(proposed);
        decided = std::move(*proposed);
      }
      if (decided) return Parse(*decided);
    }
  }

  // Joins the group of the members. Returns null if the round has failed; `why` then has the
  // reason if this rank knows it.
  Result<std::unique_ptr<Communicator>> Join(const std::vector<int>& members,
                                             std::optional<Error>& why) {
    std::vector<int> ranks;
    for (const int member : members) ranks.push_back(RankOf(member));
    CommunicatorOptions options = OptionsOfPart(old_, ranks);
    options.join_by = steady_clock::now() + std::min(kJoinPatience, options.timeout);
    const auto own = std::ranges::find(members, own_) - members.begin();
    auto joined = Communicator::Join(old_.store(), name_, static_cast<int>(own),
                                     static_cast<int>(members.size()), options);
    if (!joined) why = joined.error();
    auto verdict = old_.store().SetOnce(name_ + "/verdict", joined ? "formed" : "failed",
                                        steady_clock::now() + kStorePatience);
    if (!verdict) return Propagate(verdict);
    if (joined && *verdict == "formed") return joined;
    return nullptr;
  }

 private:
  std::string KeyOf(int number) const { return fmt::format("{}/here.{}", name_, number); }
  int RankOf(int number) const {
    return static_cast<int>(std::ranges::find(lineage_.numbers, number) - lineage_.numbers.begin());
  }
  std::optional<std::string> Glance(const std::string& key, milliseconds patience) {
    auto value = old_.store().Get(key, steady_clock::now() + patience);
    if (!value) return std::nullopt;
    return std::move(*value);
  }

  // Adds the ranks that have come. Returns whether nobody else can come. A rank that ends after it
  // has come is found here, as it is looked for again when it has ended.
  bool LookFor(std::set<int>& here, milliseconds patience) {
    bool is_complete = true;
    for (const int number : candidates_) {
      if (here.contains(number)) continue;
      const bool has_ended = old_.HasLost(RankOf(number));
      if (Glance(KeyOf(number), patience)) {
        here.insert(number);
      } else if (!has_ended) {
        is_complete = false;
      }
    }
    return is_complete;
  }

  Result<std::vector<int>> Parse(const std::string& text) const {
    std::istringstream stream(text);
    std::vector<int> members;
    for (int number = 0; stream >> number;) members.push_back(number);
    const bool is_right =
        stream.eof() && !members.empty() && std::ranges::is_sorted(members) &&
        std::ranges::adjacent_find(members) == members.end() &&
        std::ranges::all_of(members, [this](int number) { return Contains(candidates_, number); });
    if (is_right) return members;
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("the store has \"{}\" as the ranks that are left of {} (another "
                            "version, or a name that another group has?)",
                            text, lineage_.base));
  }

  Communicator& old_;
  const Lineage& lineage_;
  const std::string name_;
  const std::vector<int> candidates_;
  const int own_;
};

std::vector<int> LostOf(const Lineage& lineage, const std::vector<int>& members) {
  std::vector<int> lost;
  for (std::size_t rank = 0; rank < lineage.numbers.size(); ++rank) {
    if (!Contains(members, lineage.numbers[rank])) lost.push_back(static_cast<int>(rank));
  }
  return lost;
}

// Whether this rank may form a group with the members.
Result<void> CheckMembers(const Communicator& old, const Lineage& lineage,
                          const std::vector<int>& members, int least) {
  if (!Contains(members, lineage.numbers[static_cast<std::size_t>(old.rank())])) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("the other ranks went on without rank {}, which came too late (end "
                            "this process, or join another group)",
                            old.rank()));
  }
  if (members.size() >= static_cast<std::size_t>(std::max(least, 1))) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("{} of {} ranks are left, fewer than the {} that are required (lost: "
                          "rank {})",
                          members.size(), lineage.numbers.size(), least,
                          fmt::join(LostOf(lineage, members), ", ")));
}

}  // namespace

Lineage Lineage::Of(const Communicator& group) {
  Lineage lineage = {.base = group.name()};
  lineage.numbers.resize(static_cast<std::size_t>(group.size()));
  std::iota(lineage.numbers.begin(), lineage.numbers.end(), 0);
  return lineage;
}

Result<Reformed> Reform(Communicator& old, const Lineage& lineage, const ReformOptions& options) {
  const milliseconds timeout = old.options().timeout;
  const milliseconds patience = options.patience > milliseconds(0) ? options.patience : timeout;
  const auto end = steady_clock::now() + patience + timeout;
  std::vector<int> candidates = lineage.numbers;
  std::optional<Error> why;
  for (std::uint32_t number = lineage.round;; ++number) {
    Round round(old, lineage, number, candidates);
    auto members = round.ChooseMembers(std::min(end, steady_clock::now() + patience));
    if (!members) return Propagate(members);
    auto may_join = CheckMembers(old, lineage, *members, options.least);
    if (!may_join) return Propagate(may_join);
    auto joined = round.Join(*members, why);
    if (!joined) return Propagate(joined);
    if (*joined != nullptr) {
      return Reformed{.group = std::move(*joined),
                      .lost = LostOf(lineage, *members),
                      .lineage = {lineage.base, number + 1, *members}};
    }
    if (steady_clock::now() >= end) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("the group could not be formed again in {} rounds: {}",
                              number - lineage.round + 1,
                              why ? why->message : "another rank could not join"));
    }
    candidates = std::move(*members);
  }
}

}  // namespace espalier::runtime
