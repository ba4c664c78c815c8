#include "controller/prediction/cycle_learner.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {
namespace {

constexpr std::size_t kTimesKept = 32;
constexpr std::size_t kOffsetsKept = 8;
constexpr std::size_t kMaxLag = 8;            // starts of a set per iteration
constexpr std::size_t kGapsForMedian = 5;     // at lag 1; 3 at higher lags
constexpr std::size_t kGapsForTrust = 8;      // latest gaps that count for the confidence
constexpr std::uint8_t kMaxMissedStarts = 3;  // then a member has left
constexpr int kGapsUntilGone = 3;             // a set that is late by more is not predicted
constexpr int kUnknownGapInTogethers = 8;
constexpr double kScoreWeight = 0.125;  // of one start of a set of mean size
constexpr double kOffBelow = 0.5;
constexpr double kOnAbove = 0.75;

// Problem: predict from a stream of arrivals (flow, time) which flows arrive together next, and
// when, although sets interleave, members come late, and iterations pause or drift.
// Idea: arrivals of unknown flows collect in pending_ until none has come for `together`; then they
// become a set. An arrival of a known flow goes to the set that is starting and lacks it, else it
// begins a new start of the set whose forecast is nearest. Each start closes the one before: its
// members are scored, and those that stayed away too often leave. Times are learned per set, by the
// lag at which gaps repeat and by the offset to the preceding set.
// Invariant: a flow occurs at most once in a set (`place`), and sets_of_ lists the sets of each
// flow. A flow that arrives again while it is pending closes pending_ first, so it occurs there
// once. Cost: as in the header; LearnGap is O(kTimesKept x kMaxLag) per start, when a forecast is
// needed.

// The middle value; of an even count the lower of the two.
template <typename T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Duration Distance(Duration a, Duration b) { return a > b ? a - b : b - a; }

// The differences between each gap and the one `lag` earlier, oldest first.
std::vector<Duration> DeviationsAt(std::span<const Duration> gaps, std::size_t lag) {
  std::vector<Duration> deviations;
  for (std::size_t i = lag; i < gaps.size(); ++i) {
    deviations.push_back(Distance(gaps[i], gaps[i - lag]));
  }
  return deviations;
}

Duration GapAt(std::span<const Duration> gaps, std::size_t lag) {
  std::vector<Duration> alike;
  const std::size_t most = lag == 1 ? kGapsForMedian : 3;
  for (std::size_t back = lag; back <= gaps.size() && alike.size() < most; back += lag) {
    alike.push_back(gaps[gaps.size() - back]);
  }
  return Median(std::move(alike));
}

// After how many gaps the gaps repeat. A longer lag must halve the deviation, and must have been
// seen to repeat.
std::size_t LagOf(std::span<const Duration> gaps) {
  std::size_t best = 1;
  if (gaps.size() < 3) return best;
  Duration least = Median(DeviationsAt(gaps, 1));
  for (std::size_t lag = 2; lag <= kMaxLag && 2 * lag < gaps.size(); ++lag) {
    const Duration deviation = Median(DeviationsAt(gaps, lag));
    if (deviation < least / 2) {
      least = deviation;
      best = lag;
    }
  }
  return best;
}

}  // namespace

bool CycleLearner::HandleStart(Key key, std::uint64_t bytes, TimePoint now) {
  const bool had_sets = !sets_.empty();
  Tick(now);
  last_start_ = now_;
  if (pending_keys_.contains(key)) LearnPending();
  Set* set = ChooseSet(key);
  if (set != nullptr) {
    TakeMember(*set, key, bytes);
    ++hits_;
    return true;
  }
  if (had_sets) ++misses_;
  if (member_count_ + pending_.size() >= options_.max_members) return false;
  if (pending_.empty()) pending_first_ = now_;
  pending_last_ = now_;
  pending_.emplace_back(key, bytes);
  pending_keys_.insert(key);
  return false;
}

void CycleLearner::Declare(std::span<const Key> members, std::uint64_t bytes_each,
                           Duration period) {
  Set set{
      .id = SetId(next_id_), .is_declared = true, .declared_period = std::max(Duration{}, period)};
  for (const Key key : members) {
    if (set.place.contains(key)) continue;
    const auto known = sets_of_.find(key);
    const bool is_declared =
        known != sets_of_.end() && std::any_of(known->second.begin(), known->second.end(),
                                               [&](SetId id) { return Find(id)->is_declared; });
    if (is_declared) continue;
    if (member_count_ >= options_.max_members) break;
    AddMember(set, key, bytes_each);
  }
  if (set.members.empty()) return;
  if (sets_.size() >= options_.max_sets) DropLeastRecentlySeen();
  ++next_id_;
  sets_.push_back(std::move(set));
  ++changes_;
}

void CycleLearner::Tick(TimePoint now) {
  now_ = std::max(now_, now);
  if (!pending_.empty() && now_ - pending_last_ > options_.together) LearnPending();
}

CycleLearner::Set* CycleLearner::Find(SetId id) {
  const auto found =
      std::find_if(sets_.begin(), sets_.end(), [&](const Set& set) { return set.id == id; });
  return found == sets_.end() ? nullptr : &*found;
}

const CycleLearner::Set* CycleLearner::Find(SetId id) const {
  const auto found =
      std::find_if(sets_.begin(), sets_.end(), [&](const Set& set) { return set.id == id; });
  return found == sets_.end() ? nullptr : &*found;
}

CycleLearner::Set* CycleLearner::ChooseSet(Key key) {
  const auto known = sets_of_.find(key);
  if (known == sets_of_.end()) return nullptr;
  Set* starting = nullptr;
  for (const SetId id : known->second) {
    Set* set = Find(id);
    const bool has_started = set->members[set->place.at(key)].has_started;
    if (has_started || set->times.empty() || IsLate(*set)) continue;
    if (starting == nullptr || set->times.back() > starting->times.back()) starting = set;
  }
  if (starting != nullptr) return starting;
  Set* next = nullptr;
  Duration nearest = Duration::max();
  for (const SetId id : known->second) {
    Set* set = Find(id);
    const auto forecast = ForecastOf(*set);
    const Duration distance =
        forecast ? Distance(forecast->time.time_since_epoch(), now_.time_since_epoch())
                 : Duration::max();
    if (next == nullptr || distance < nearest) {
      next = set;
      nearest = distance;
    }
  }
  next->members[next->place.at(key)].missed_starts = 0;  // it has returned, so it stays a member
  BeginStart(*next);
  return next;
}

bool CycleLearner::IsLate(const Set& set) const {
  const Duration gap = set.gap.value_or(2 * kUnknownGapInTogethers * options_.together);
  return now_ - set.times.back() > std::max(options_.together, gap / 2);
}

void CycleLearner::BeginStart(Set& set) {
  EndStart(set);
  if (last_set_ && *last_set_ != set.id) {
    const Set* before = Find(*last_set_);
    if (set.before != last_set_) set.offsets.clear();
    set.before = last_set_;
    if (before != nullptr && !before->times.empty()) {
      set.offsets.push_back(now_ - before->times.back());
      if (set.offsets.size() > kOffsetsKept) set.offsets.pop_front();
    }
  }
  last_set_ = set.id;
  ++set.starts;
  set.times.push_back(now_);
  if (set.times.size() > kTimesKept) set.times.pop_front();
  set.has_new_gap = true;
  ++changes_;
}

void CycleLearner::LearnGaps() {
  for (Set& set : sets_) {
    if (std::exchange(set.has_new_gap, false)) LearnGap(set);
  }
}

void CycleLearner::EndStart(Set& set) {
  if (set.starts == 0) return;
  // The start from which the set was learned was not predicted.
  if (set.starts > 1 || set.is_declared) {
    Score(static_cast<double>(set.started) / static_cast<double>(set.members.size()),
          set.members.size());
  }
  for (Member& member : set.members) {
    member.missed_starts =
        member.has_started ? 0 : static_cast<std::uint8_t>(member.missed_starts + 1);
    member.has_started = false;
  }
  set.started = 0;
  DropMembersThatLeft(set);
}

void CycleLearner::DropMembersThatLeft(Set& set) {
  const auto has_left = [](const Member& member) {
    return member.missed_starts >= kMaxMissedStarts;
  };
  if (set.is_declared || std::none_of(set.members.begin(), set.members.end(), has_left)) return;
  for (const Member& member : set.members) {
    if (!has_left(member)) continue;
    auto& sets = sets_of_[member.key];
    std::erase(sets, set.id);
    if (sets.empty()) sets_of_.erase(member.key);
    --member_count_;
  }
  std::erase_if(set.members, has_left);
  set.place.clear();
  for (std::uint32_t i = 0; i < set.members.size(); ++i) set.place[set.members[i].key] = i;
}

void CycleLearner::AddMember(Set& set, Key key, std::uint64_t bytes) {
  set.place[key] = static_cast<std::uint32_t>(set.members.size());
  set.members.push_back({.key = key, .bytes = bytes, .recent = {bytes, bytes, bytes}});
  sets_of_[key].push_back(set.id);
  ++member_count_;
}

void CycleLearner::TakeMember(Set& set, Key key, std::uint64_t bytes) {
  Member& member = set.members[set.place.at(key)];
  member.has_started = true;
  member.missed_starts = 0;
  ++set.started;
  member.recent = {member.recent[1], member.recent[2], bytes};
  const auto [low, high] = std::minmax(member.recent[0], member.recent[1]);
  member.bytes = std::clamp(bytes, low, high);  // the median
}

void CycleLearner::LearnPending() {
  if (!sets_.empty()) Score(0, pending_.size());
  if (sets_.size() >= options_.max_sets) DropLeastRecentlySeen();
  Set set{.id = SetId(next_id_++), .starts = 1, .times = {pending_first_}};
  for (const auto& [key, bytes] : pending_) {
    AddMember(set, key, bytes);
    set.members.back().has_started = true;
  }
  set.started = set.members.size();
  last_set_ = set.id;
  sets_.push_back(std::move(set));
  ++changes_;
  pending_.clear();
  pending_keys_.clear();
}

void CycleLearner::DropSet(SetId id) {
  const Set* set = Find(id);
  for (const Member& member : set->members) {
    auto& sets = sets_of_[member.key];
    std::erase(sets, id);
    if (sets.empty()) sets_of_.erase(member.key);
  }
  member_count_ -= set->members.size();
  std::erase_if(sets_, [&](const Set& other) { return other.id == id; });
}

void CycleLearner::DropLeastRecentlySeen() {
  const auto last_seen = [](const Set& set) {
    return set.times.empty() ? TimePoint{} : set.times.back();
  };
  const auto oldest = std::min_element(sets_.begin(), sets_.end(), [&](const Set& a, const Set& b) {
    return last_seen(a) < last_seen(b);
  });
  DropSet(oldest->id);
}

void CycleLearner::Score(double share_expected, std::size_t starts) {
  // A few unrelated flows in a large job count little.
  const double mean_size = static_cast<double>(member_count_) / static_cast<double>(sets_.size());
  const double size = mean_size > 0 ? std::min(1.0, static_cast<double>(starts) / mean_size) : 1;
  score_ += kScoreWeight * size * (share_expected - score_);
  if (score_ < kOffBelow) is_on_ = false;
  if (score_ > kOnAbove) is_on_ = true;
}

void CycleLearner::LearnGap(Set& set) {
  std::vector<Duration> gaps;
  for (std::size_t i = 1; i < set.times.size(); ++i) {
    gaps.push_back(set.times[i] - set.times[i - 1]);
  }
  if (gaps.empty()) return;
  set.lag = LagOf(gaps);
  set.gap = GapAt(gaps, set.lag);
  const std::vector<Duration> deviations = DeviationsAt(gaps, set.lag);
  set.deviation = deviations.empty() ? *set.gap / 4 : Median(deviations);
  std::size_t seen = 0;
  std::size_t as_predicted = 0;
  for (std::size_t i = gaps.size(); i-- > set.lag && seen < kGapsForTrust; ++seen) {
    if (Distance(gaps[i], gaps[i - set.lag]) <= gaps[i] / 4) ++as_predicted;
  }
  set.confidence = seen > 0 ? static_cast<double>(as_predicted) / static_cast<double>(seen) : 0;
}

std::optional<CycleLearner::Forecast> CycleLearner::ForecastByGap(const Set& set) {
  if (set.times.empty()) return std::nullopt;
  if (set.gap) return Forecast{set.times.back() + *set.gap, set.deviation};
  if (set.declared_period == Duration{}) return std::nullopt;
  return Forecast{set.times.back() + set.declared_period, set.declared_period / 8};
}

std::optional<CycleLearner::Forecast> CycleLearner::ForecastByOffset(const Set& set) const {
  const Set* before = set.before ? Find(*set.before) : nullptr;
  if (before == nullptr || set.offsets.size() < 2) return std::nullopt;
  if (before->times.empty() || before->times.back() <= set.times.back()) return std::nullopt;
  const std::vector<Duration> offsets(set.offsets.begin(), set.offsets.end());
  const Duration offset = Median(offsets);
  std::vector<Duration> deviations;
  deviations.reserve(offsets.size());
  for (const Duration each : offsets) deviations.push_back(Distance(each, offset));
  return Forecast{before->times.back() + offset, Median(std::move(deviations))};
}

std::optional<CycleLearner::Forecast> CycleLearner::ForecastOf(const Set& set) const {
  const auto by_gap = ForecastByGap(set);
  if (!by_gap) return std::nullopt;
  const auto by_offset = ForecastByOffset(set);
  return by_offset && by_offset->deviation <= by_gap->deviation ? by_offset : by_gap;
}

std::vector<CycleLearner::Next> CycleLearner::Upcoming() {
  LearnGaps();
  std::vector<Next> upcoming;
  for (const Set& set : sets_) {
    Next next{.set = set.id};
    if (const auto forecast = ForecastOf(set)) {
      const Duration gap = forecast->time - set.times.back();
      if (now_ - forecast->time > kGapsUntilGone * gap) continue;
      next.expected = forecast->time;
      next.uncertainty = 3 * forecast->deviation;
      next.confidence = set.confidence;
    }
    upcoming.push_back(next);
  }
  std::stable_sort(upcoming.begin(), upcoming.end(), [](const Next& a, const Next& b) {
    return a.expected.value_or(TimePoint::max()) < b.expected.value_or(TimePoint::max());
  });
  return upcoming;
}

std::span<const CycleLearner::Member> CycleLearner::MembersOf(SetId set) const {
  const Set* found = Find(set);
  return found == nullptr ? std::span<const Member>() : found->members;
}

std::uint64_t CycleLearner::StartsOf(SetId id) const {
  const Set* set = Find(id);
  return set == nullptr ? 0 : set->starts;
}

bool CycleLearner::HasPartlyStarted(SetId id) const {
  const Set* set = Find(id);
  return set != nullptr && set->started > 0 && set->started < set->members.size() && !IsLate(*set);
}

std::optional<Duration> CycleLearner::Period() {
  LearnGaps();
  const Set* largest = nullptr;
  for (const Set& set : sets_) {
    if (set.times.size() < 2) continue;
    if (largest == nullptr || set.members.size() > largest->members.size()) largest = &set;
  }
  if (largest == nullptr) return std::nullopt;
  if (largest->lag == 1) return largest->gap;
  return largest->times.back() - largest->times[largest->times.size() - 1 - largest->lag];
}

double CycleLearner::HitRate() const {
  const std::uint64_t all = hits_ + misses_;
  return all == 0 ? 0 : static_cast<double>(hits_) / static_cast<double>(all);
}

}  // namespace espalier::controller
