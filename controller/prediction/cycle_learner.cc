#include "controller/prediction/cycle_learner.h"

#include <algorithm>
#include <utility>

#include "common/base/random.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kOffsetsKept = 8;
constexpr std::uint8_t kMaxMissedStarts = 3;  // then a member has left
constexpr int kGapsUntilGone = 3;             // a set that is late by more is not predicted
constexpr double kScoreWeight = 0.125;        // of one start of a set of mean size
constexpr double kOffBelow = 0.5;
constexpr double kOnAbove = 0.75;
constexpr double kCompleteShare = 0.75;  // of members; a set with less at its starts is a wrong one
constexpr std::uint64_t kMostPatience = 1'024;

// Problem: predict from a stream of arrivals (flow, time) which flows arrive together next, and
// when, although sets interleave, members come late, and iterations pause or drift.
// Idea: arrivals of unknown flows collect in pending_ until none has come for `together`; then they
// become a set. An arrival of a known flow goes to the set that is starting and lacks it, else it
// begins a new start of the set whose forecast is nearest. Each start closes the one before: its
// members are scored, and those that stayed away too often leave. Times are learned per set, by the
// lag at which gaps repeat and by the offset to the preceding set.
// Invariant: a flow occurs at most once in a set, and places_ has its index in each of its sets. A
// flow that arrives again while it is pending closes pending_ first, so it occurs there once. Cost:
// as in the header; StartTimes::Learn adds a constant per start, when a forecast is needed.

// Identifies the members that take part in a start, in any order.
std::uint64_t ShapeOf(CycleLearner::Key key) {
  std::uint64_t mixed = key.value() + 0x9E37'79B9'7F4A'7C15;  // splitmix64
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58'476D'1CE4'E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D0'49BB'1331'11EB;
  return mixed ^ (mixed >> 31);
}

// Removes the place of a flow in this set.
template <typename Places>
void DropPlace(Places& places, CycleLearner::Key key, CycleLearner::SetId set) {
  const auto found = places.find(key);
  std::erase_if(found->second, [&](const auto& place) { return place.set == set; });
  if (found->second.empty()) places.erase(found);
}

}  // namespace

bool CycleLearner::HandleStart(Key key, std::uint64_t bytes, TimePoint now) {
  Tick(now);
  last_start_ = now_;
  if (!activity_.HandleStart(key, now_)) return places_.contains(key);
  if (pending_keys_.contains(key)) LearnPending();
  const auto [set, index] = ChooseSet(key);
  if (set != nullptr) {
    TakeMember(*set, index, bytes);
    SplitOffVariant();
    return true;
  }
  if (member_count_ + pending_.size() >= options_.max_members) return false;
  if (pending_.empty()) pending_first_ = now_;
  pending_last_ = now_;
  pending_.push_back({key, bytes, now_});
  pending_keys_.insert(key);
  return false;
}

void CycleLearner::HandleEnd(Key key, TimePoint now, std::uint64_t bytes) {
  Tick(now);
  activity_.HandleEnd(key, now, bytes);  // its own time, as ends are told later than starts
  const bool has_set = activity_.SetOf(key).has_value();  // which is at hand
  if (has_set || places_.contains(key) || pending_keys_.contains(key)) return;
  activity_.Forget(key);
}

void CycleLearner::Declare(std::span<const Key> members, std::uint64_t bytes_each,
                           Duration period) {
  LearnedSet set{.id = SetId(next_id_),
                 .is_declared = true,
                 .declared_period = std::max(Duration{}, period),
                 .order = StartOrder(options_.together)};
  for (const Key key : members) {
    const auto known = places_.find(key);
    const bool is_declared =
        known != places_.end() && std::ranges::any_of(known->second, [&](const Place& place) {
          return place.set == set.id || Find(place.set)->is_declared;
        });
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
  LearnAnew();
  activity_.Tick(now_);
}

LearnedSet* CycleLearner::Find(SetId id) {
  const auto found =
      std::find_if(sets_.begin(), sets_.end(), [&](const LearnedSet& set) { return set.id == id; });
  return found == sets_.end() ? nullptr : &*found;
}

const LearnedSet* CycleLearner::Find(SetId id) const {
  const auto found =
      std::find_if(sets_.begin(), sets_.end(), [&](const LearnedSet& set) { return set.id == id; });
  return found == sets_.end() ? nullptr : &*found;
}

CycleLearner::Chosen CycleLearner::ChooseSet(Key key) {
  const auto is_starting_without = [&](const LearnedSet& set, std::uint32_t index) {
    return !set.members[index].has_started && !set.times.empty() &&
           !set.IsLate(now_, options_.together);
  };
  // Nearly all arrivals are of flows in one set, which is starting. Members move, and sets go,
  // without a word to usual_.
  const PhaseLearner::Number number = activity_.NumberOf(key);
  if (number < usual_.size() && usual_[number].index != kNowhere) {
    const auto [id, index] = usual_[number];
    LearnedSet* const set = Find(id);
    const bool is_there =
        set != nullptr && index < set->members.size() && set->members[index].key == key;
    if (is_there && is_starting_without(*set, index)) return {set, index};
  }
  const auto known = places_.find(key);
  if (known == places_.end()) return {};
  if (number != PhaseLearner::kNone && known->second.size() == 1) {
    if (usual_.size() <= number) usual_.resize(number + 1, {.set = {}, .index = kNowhere});
    usual_[number] = known->second.front();
  }
  Chosen starting;
  for (const Place& place : known->second) {
    LearnedSet* set = Find(place.set);
    if (!is_starting_without(*set, place.index)) continue;
    if (starting.set == nullptr || set->times.last() > starting.set->times.last()) {
      starting = {set, place.index};
    }
  }
  if (starting.set != nullptr) return starting;
  const Place* next_place = nullptr;
  LearnedSet* next = nullptr;
  Duration nearest = Duration::max();
  for (const Place& place : known->second) {
    LearnedSet* set = Find(place.set);
    const auto forecast = ForecastOf(*set);
    const Duration distance =
        forecast ? Distance(forecast->time.time_since_epoch(), now_.time_since_epoch())
                 : Duration::max();
    if (next == nullptr || distance < nearest) {
      next = set;
      next_place = &place;
      nearest = distance;
    }
  }
  next->members[next_place->index].missed_starts = 0;  // it has returned, so it stays a member
  BeginStart(*next);                                   // may move it to another index
  return {next, next_place->index};
}

void CycleLearner::BeginStart(LearnedSet& set) {
  EndStart(set);
  // This start, and the end of the one before, against what was predicted of them.
  set.times.Learn();
  const Duration period = set.times.Period().value_or(set.declared_period);
  if (const auto forecast = ForecastOf(set)) errors_.starts.Add(now_ - forecast->time, period);
  const auto length = activity_.LastLengthOf(set.id);
  if (length && set.expected_length) errors_.ends.Add(*length - *set.expected_length, period);
  const PhaseLearner::Length next = activity_.NextLengthOf(set.id, set.times.lag());
  set.expected_length = next.seen > 0 ? std::optional(next.duration) : std::nullopt;
  if (last_set_ && *last_set_ != set.id) {
    const LearnedSet* before = Find(*last_set_);
    if (set.before != last_set_) set.offsets.clear();
    set.before = last_set_;
    if (before != nullptr && !before->times.empty()) {
      set.offsets.push_back(now_ - before->times.last());
      if (set.offsets.size() > kOffsetsKept) set.offsets.pop_front();
    }
  }
  last_set_ = set.id;
  ++set.starts;
  set.times.Add(now_);
  activity_.BeginStart(set.id, now_);
  ++changes_;
}

void CycleLearner::EndStart(LearnedSet& set) {
  if (set.starts == 0) return;
  // The start from which the set was learned was not predicted.
  if (set.starts > 1 || set.is_declared) {
    const double share = static_cast<double>(set.started) / static_cast<double>(set.members.size());
    set.share += kScoreWeight * (share - set.share);
    Score(share, set.members.size());
  }
  NoteShape(set);
  set.order.EndStart();
  const bool may_part = !set.is_declared && !variant_ && sets_.size() < options_.max_sets;
  if (may_part && set.order.AreParted()) variant_ = set.LaterPhase(activity_);
  for (SetMember& member : set.members) {
    member.missed_starts =
        member.has_started ? 0 : static_cast<std::uint8_t>(member.missed_starts + 1);
    member.has_started = false;
  }
  set.started = 0;
  const auto has_left = [](const SetMember& member) {
    return member.missed_starts >= kMaxMissedStarts;
  };
  if (!set.is_declared && std::ranges::any_of(set.members, has_left)) DropMembers(set, has_left);
}

void CycleLearner::NoteShape(LearnedSet& set) {
  if (set.times.empty()) return;
  std::uint64_t shape = 0;
  std::uint64_t absent = 0;  // the shape of those that did not start
  for (const SetMember& member : set.members) {
    (member.has_started ? shape : absent) += ShapeOf(member.key);
  }
  set.times.SetShapeOfLast(shape);
  if (set.is_declared || set.started == set.members.size()) return;
  // Two jobs of one name whose periods differ start in no order, but one without the other.
  const bool are_apart = set.times.IsFrequent(shape) && set.times.IsFrequent(absent);
  if (!are_apart && !set.times.HaveShapesInTurn()) return;
  if (sets_.size() >= options_.max_sets) return;
  if (member_count_ + set.started > options_.max_members) return;
  variant_ = SetVariant{.of = set.id, .shape = shape, .members = {}};
  for (const SetMember& member : set.members) {
    if (member.has_started) variant_->members.emplace_back(member.key, member.bytes);
  }
}

void CycleLearner::SplitOffVariant() {
  if (!variant_) return;
  const SetVariant variant = *std::exchange(variant_, std::nullopt);
  if (variant.after) return SplitOffLaterPhase(variant);
  LearnedSet* of = Find(variant.of);
  if (of == nullptr) return;
  LearnedSet set{
      .id = SetId(next_id_++), .split_from = variant.of, .order = StartOrder(options_.together)};
  set.times = of->times.TakeShape(variant.shape);
  set.starts = set.times.size();
  for (const auto& [key, bytes] : variant.members) AddMember(set, key, bytes);
  sets_.push_back(std::move(set));
  ++changes_;
  of = Find(variant.of);
  const bool is_covered = std::ranges::all_of(of->members, [&](const SetMember& member) {
    return std::ranges::any_of(places_.at(member.key), [&](const Place& place) {
      return Find(place.set)->split_from == variant.of;
    });
  });
  if (is_covered) DropSet(variant.of);
}

void CycleLearner::DropMembers(LearnedSet& set,
                               const std::function<bool(const SetMember&)>& is_to_go) {
  for (const SetMember& member : set.members) {
    if (!is_to_go(member)) continue;
    DropPlace(places_, member.key, set.id);
    --member_count_;
  }
  std::erase_if(set.members, is_to_go);
  set.order.Stop();
  ++member_changes_;
  for (std::uint32_t i = 0; i < set.members.size(); ++i) {
    std::ranges::find(places_.at(set.members[i].key), set.id, &Place::set)->index = i;
  }
}

void CycleLearner::AddMember(LearnedSet& set, Key key, std::uint64_t bytes) {
  places_[key].push_back({set.id, static_cast<std::uint32_t>(set.members.size())});
  const PhaseLearner::Number number = activity_.NumberOf(key);
  if (number < usual_.size()) usual_[number].index = kNowhere;
  ++member_changes_;
  set.members.push_back({.key = key, .bytes = bytes, .recent = {bytes, bytes, bytes}});
  ++member_count_;
}

void CycleLearner::TakeMember(LearnedSet& set, std::uint32_t index, std::uint64_t bytes) {
  SetMember& member = set.members[index];
  activity_.Join(set.id, member.key);
  set.order.Take(index, now_ - set.times.last());
  ++taken_;
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
  LearnedSet set{.id = SetId(next_id_++), .starts = 1, .order = StartOrder(options_.together)};
  set.times.Add(pending_first_);
  activity_.BeginStart(set.id, pending_first_);
  for (const Pending& flow : pending_) {
    set.order.Take(static_cast<std::uint32_t>(set.members.size()), flow.at - pending_first_);
    AddMember(set, flow.key, flow.bytes);
    activity_.Join(set.id, flow.key);
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
  const LearnedSet* set = Find(id);
  for (const SetMember& member : set->members) {
    DropPlace(places_, member.key, id);
  }
  member_count_ -= set->members.size();
  ++member_changes_;
  activity_.Drop(id);
  std::erase_if(sets_, [&](const LearnedSet& other) { return other.id == id; });
}

void CycleLearner::DropLeastRecentlySeen() {
  const auto last_seen = [](const LearnedSet& set) {
    return set.times.empty() ? TimePoint{} : set.times.last();
  };
  const auto oldest = std::min_element(
      sets_.begin(), sets_.end(),
      [&](const LearnedSet& a, const LearnedSet& b) { return last_seen(a) < last_seen(b); });
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

std::optional<StartForecast> CycleLearner::ForecastOf(const LearnedSet& set) const {
  const auto by_gap = set.ForecastByGap();
  const LearnedSet* before = set.before ? Find(*set.before) : nullptr;
  if (!by_gap || before == nullptr || set.offsets.size() < 2) return by_gap;
  if (before->times.empty() || before->times.last() <= set.times.last()) return by_gap;
  const std::vector<Duration> offsets(set.offsets.begin(), set.offsets.end());
  const Duration offset = MedianOf(offsets);
  std::vector<Duration> deviations;
  deviations.reserve(offsets.size());
  for (const Duration each : offsets) deviations.push_back(Distance(each, offset));
  const StartForecast by_offset{before->times.last() + offset, MedianOf(std::move(deviations))};
  return by_offset.deviation <= by_gap->deviation ? by_offset : by_gap;
}

std::vector<CycleLearner::Next> CycleLearner::Upcoming() {
  for (LearnedSet& set : sets_) set.times.Learn();
  std::vector<Next> upcoming;
  for (const LearnedSet& set : sets_) {
    Next next{.set = set.id};
    if (const auto forecast = ForecastOf(set)) {
      const Duration gap = forecast->time - set.times.last();
      if (now_ - forecast->time > kGapsUntilGone * gap) continue;
      next.expected = forecast->time;
      next.uncertainty = 3 * forecast->deviation;
      next.confidence = set.times.confidence();
    }
    upcoming.push_back(next);
  }
  std::stable_sort(upcoming.begin(), upcoming.end(), [](const Next& a, const Next& b) {
    return a.expected.value_or(TimePoint::max()) < b.expected.value_or(TimePoint::max());
  });
  return upcoming;
}

std::span<const SetMember> CycleLearner::MembersOf(SetId set) const {
  const LearnedSet* found = Find(set);
  return found == nullptr ? std::span<const SetMember>() : found->members;
}

PhaseLearner::Burst CycleLearner::UsualBurstOf(Key key) {
  const auto id = activity_.SetOf(key);
  const LearnedSet* set = id ? Find(*id) : nullptr;
  return activity_.BurstOf(key, set == nullptr ? 1 : set->times.lag());
}

std::uint64_t CycleLearner::StartsOf(SetId id) const {
  const LearnedSet* set = Find(id);
  return set == nullptr ? 0 : set->starts;
}

bool CycleLearner::HasPartlyStarted(SetId id) const {
  const LearnedSet* set = Find(id);
  return set != nullptr && set->started > 0 && set->started < set->members.size() &&
         !set->IsLate(now_, options_.together);
}

std::optional<Duration> CycleLearner::Period() {
  for (LearnedSet& set : sets_) set.times.Learn();
  const LearnedSet* largest = nullptr;
  for (const LearnedSet& set : sets_) {
    if (set.times.size() < 2) continue;
    if (largest == nullptr || set.members.size() > largest->members.size()) largest = &set;
  }
  if (largest == nullptr) return std::nullopt;
  return largest->times.Period();
}

// Sets are learned from the first arrivals. If these all came at once, late, one set has flows of
// several phases. Some of these are as often too late for a start as in time, so that each start
// has other members and no order shows, however long the job runs. Once forgotten, the flows come
// phase by phase and are learned as what they are. Between starts, so that no phase is torn apart.
void CycleLearner::LearnAnew() {
  if (taken_ < patience_ * places_.size() || now_ - last_start_ <= options_.together) return;
  taken_ = 0;
  if (ArePhasesLearned()) {
    patience_ = kPatience;
    return;
  }
  std::vector<SetId> wrong;
  for (const LearnedSet& set : sets_) {
    if (!set.is_declared && set.share < kCompleteShare) wrong.push_back(set.id);
  }
  if (wrong.empty()) return;
  patience_ = std::min(2 * patience_, kMostPatience);  // there may be no order in this job
  for (const SetId id : wrong) DropSet(id);
  ++changes_;
}

// Until it has started a few times by itself, the times of the set that it is from stand for its
// own, so that no flow is without a phase meanwhile.
void CycleLearner::SplitOffLaterPhase(const SetVariant& later) {
  LearnedSet* of = Find(later.of);
  if (of == nullptr) return;
  std::unordered_set<Key> keys;
  for (const auto& [key, bytes] : later.members) keys.insert(key);
  const auto is_later = [&](const SetMember& member) { return keys.contains(member.key); };
  const bool came_first = std::ranges::any_of(
      of->members, [&](const SetMember& member) { return member.has_started && is_later(member); });
  if (came_first) return;
  LearnedSet set{.id = SetId(next_id_++),
                 .starts = of->starts - 1,
                 .share = of->share,
                 .was_regular = of->was_regular,
                 .is_in_phase = of->is_in_phase,
                 .regular_at = of->regular_at,
                 .times = of->times.BeforeLastLaterBy(*later.after),
                 .order = StartOrder(options_.together)};
  activity_.Divide(of->id, set.id, *later.after);
  DropMembers(*of, is_later);
  for (const auto& [key, bytes] : later.members) AddMember(set, key, bytes);
  sets_.push_back(std::move(set));
  ++changes_;
}

bool CycleLearner::ArePhasesLearned() {
  are_phases_learned_ = UpdateRegularity(sets_, activity_, is_on_, are_phases_learned_,
                                         activity_.IsAnyBusy() ? now_ : last_start_);
  return are_phases_learned_;
}

std::uint64_t CycleLearner::DigestOfPhases() {
  if (!ArePhasesLearned()) return 0;
  return controller::DigestOfPhases(sets_, activity_, Mix64(member_changes_ + 1));
}

std::vector<LearnedPhase> CycleLearner::Phases() {
  if (!ArePhasesLearned()) return {};
  return PhasesOf(sets_, activity_);
}

}  // namespace espalier::controller
