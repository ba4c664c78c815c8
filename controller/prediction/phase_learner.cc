#include "controller/prediction/phase_learner.h"

#include <algorithm>
#include <utility>

#include "common/base/random.h"
#include "controller/prediction/start_times.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kStartsKept = 16;
constexpr std::size_t kLatest = 4;  // starts in at least one of which a flow must have been busy
constexpr std::size_t kBurstsUsed = 3;  // earlier bursts of a flow, of which the median counts
constexpr std::size_t kOnceIn = 4;  // starts in which a flow must be busy once to belong to a phase

}  // namespace

void PhaseLearner::Link(Number flow, Number& list) {
  Activity& activity = At(flow);
  activity.before = kNone;
  activity.after = list;
  if (list != kNone) At(list).before = flow;
  list = flow;
}

void PhaseLearner::Unlink(Number flow) {
  const Activity& activity = At(flow);
  if (activity.after != kNone) At(activity.after).before = activity.before;
  if (activity.before != kNone) {
    At(activity.before).after = activity.after;
  } else if (busy_ == flow) {
    busy_ = activity.after;
  } else if (ended_ == flow) {
    ended_ = activity.after;
  }
}

PhaseLearner::Number PhaseLearner::Find(MemberKey key) {
  if (recent_ != kNone && At(recent_).key == key) return recent_;
  const auto found = numbers_.find(key);
  if (found == numbers_.end()) return kNone;
  recent_ = found->second;
  return recent_;
}

PhaseLearner::Number PhaseLearner::Add(MemberKey key) {
  auto flow = static_cast<Number>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
    pasts_.emplace_back();
  } else {
    flow = free_.back();
    free_.pop_back();
    At(flow) = {};
    pasts_[flow] = {};
  }
  numbers_.emplace(key, flow);
  At(flow).key = key;
  At(flow).is_known = true;
  Link(flow, ended_);
  return flow;
}

bool PhaseLearner::HandleStart(MemberKey key, TimePoint now) {
  Number flow = Find(key);
  if (flow == kNone) {
    if (numbers_.size() >= options_.max_flows) return true;
    flow = Add(key);
  }
  Activity& activity = At(flow);
  Unlink(flow);
  Link(flow, busy_);
  const bool continues =
      activity.has_ended && !activity.is_busy && now - activity.ended < options_.pause;
  activity.is_busy = true;
  if (continues) return false;
  if (activity.has_ended) {
    activity.before_began = activity.began;
    activity.before_ended = activity.ended;
  }
  activity.began = now;
  activity.has_ended = false;
  activity.set.reset();
  return true;
}

void PhaseLearner::HandleEnd(MemberKey key, TimePoint now, std::uint64_t bytes) {
  const Number flow = Find(key);
  if (flow == kNone || !At(flow).is_busy) return;
  has_ends_ = true;
  Activity& activity = At(flow);
  Past& past = pasts_[flow];
  const bool continued = activity.has_ended;  // after a pause
  Unlink(flow);
  Link(flow, ended_);
  activity.is_busy = false;
  activity.has_ended = true;
  activity.ended = std::max(activity.began, now);
  if (!continued) past.bytes[past.bursts++ % kBurstsKept] = 0;
  const std::size_t burst = (past.bursts - 1) % kBurstsKept;
  past.durations[burst] = activity.ended - activity.began;
  past.bytes[burst] += bytes;
  if (!activity.set) return;
  const auto set = sets_.find(*activity.set);
  if (set == sets_.end() || set->second.empty()) return;
  Start& start = set->second.back();
  if (activity.began >= start.began) {
    start.last_end = std::max(start.last_end.value_or(activity.ended), activity.ended);
  }
}

void PhaseLearner::BeginStart(FlowSetId set, TimePoint now) {
  auto& starts = sets_[set];
  if (has_ends_ && !starts.empty() && starts.back().others == nullptr) LookAt(set, starts.back());
  starts.push_back({.began = now});
  if (starts.size() > kStartsKept) starts.pop_front();
  new_starts_.push_back(set);
  next_look_ = std::min(next_look_, LookTimeOf(starts.back()));
}

void PhaseLearner::Join(FlowSetId set, MemberKey key) {
  const Number flow = Find(key);
  if (flow == kNone) return;
  Activity& activity = At(flow);
  activity.set = set;
  auto& starts = sets_[set];
  if (activity.is_busy || !activity.has_ended || starts.empty()) return;
  auto& last_end = starts.back().last_end;  // it has ended before the set was known
  last_end = std::max(last_end.value_or(activity.ended), activity.ended);
}

void PhaseLearner::Divide(FlowSetId from, FlowSetId to, Duration later) {
  std::deque<Start> starts = sets_[from];
  if (!starts.empty()) starts.pop_back();
  for (Start& start : starts) {
    start.began += later;
    start.others = nullptr;  // it was looked at when the first one had started
  }
  sets_[to] = std::move(starts);
}

void PhaseLearner::Forget(MemberKey key) {
  const Number flow = Find(key);
  if (flow == kNone || At(flow).is_busy) return;
  Unlink(flow);
  At(flow) = {};
  recent_ = kNone;
  numbers_.erase(key);
  free_.push_back(flow);
}

void PhaseLearner::Tick(TimePoint now) {
  if (now <= next_look_) return;
  next_look_ = TimePoint::max();
  std::erase_if(new_starts_, [&](FlowSetId set) {
    const auto found = sets_.find(set);
    if (found == sets_.end() || found->second.empty()) return true;
    Start& start = found->second.back();
    if (now <= LookTimeOf(start)) {
      next_look_ = std::min(next_look_, LookTimeOf(start));
      return false;
    }
    if (has_ends_ && start.others == nullptr) LookAt(set, start);
    return true;
  });
}

bool PhaseLearner::IsBusyAt(const Start& start, TimePoint began, TimePoint ended) const {
  return began <= start.began + options_.together &&
         ended - std::max(began, start.began) > options_.pause;
}

// Periodic jobs have the same flows at the same start again and again, often thousands of them. A
// digest, which does not depend on their order, finds the list of before without sorting them.
void PhaseLearner::LookAt(FlowSetId set, Start& start) {
  std::unordered_map<FlowSetId, Duration> longest;  // after which a flow of a set is not believed
  std::pair<std::optional<FlowSetId>, Duration> recent;  // the latest of these
  found_.clear();
  std::uint64_t digest = 0;
  const auto add = [&](const Activity& activity) {
    found_.push_back(activity.key);
    digest += Mix64(activity.key.value());
  };
  const auto was_busy_before = [&](const Activity& activity) {
    return IsBusyAt(start, activity.before_began, activity.before_ended);
  };
  const auto longest_of = [&](FlowSetId of) {
    if (recent.first == of) return recent.second;
    const auto [limit, is_new] = longest.try_emplace(of, Duration::max());
    if (is_new) {
      const Length usual = LengthOf(of);
      if (usual.seen > 0) limit->second = 2 * usual.duration + options_.together;
    }
    recent = {of, limit->second};
    return limit->second;
  };
  const TimePoint looked_at = start.began + options_.together;
  for (Number flow = busy_; flow != kNone; flow = At(flow).after) {
    const Activity& activity = At(flow);
    bool counts = activity.began <= looked_at;
    if (counts && activity.set) counts = looked_at - activity.began <= longest_of(*activity.set);
    if (counts || was_busy_before(activity)) add(activity);
  }
  for (Number flow = ended_; flow != kNone; flow = At(flow).after) {
    const Activity& activity = At(flow);
    if (activity.ended + options_.told_within <= start.began + options_.pause) break;
    if (IsBusyAt(start, activity.began, activity.ended) || was_busy_before(activity)) {
      add(activity);
    }
  }
  for (const Start& other : sets_[set]) {
    if (other.others == nullptr || other.others->keys.size() != found_.size()) continue;
    if (other.others->digest != digest) continue;
    start.others = other.others;
    return;
  }
  ++lists_made_;
  std::ranges::sort(found_);
  start.others = std::make_shared<const KeyList>(KeyList{.keys = found_, .digest = digest});
}

PhaseLearner::Length PhaseLearner::LengthOf(const std::vector<Duration>& durations) {
  Length length{.seen = durations.size()};
  if (durations.empty()) return length;
  length.duration = MedianOf(durations);
  std::vector<Duration> deviations;
  deviations.reserve(durations.size());
  for (const Duration each : durations) deviations.push_back(Distance(each, length.duration));
  length.deviation = MedianOf(std::move(deviations));
  return length;
}

PhaseLearner::Burst PhaseLearner::BurstOf(MemberKey key, std::size_t lag) {
  Burst burst;
  const Number flow = Find(key);
  if (flow == kNone) return burst;
  const Past& past = pasts_[flow];
  std::array<std::pair<Duration, std::uint64_t>, kBurstsUsed> used;
  std::size_t& seen = burst.length.seen;
  const std::size_t kept = std::min(past.bursts, kBurstsKept);
  for (std::size_t back = lag; seen < kBurstsUsed && back <= kept; back += lag) {
    const std::size_t at = (past.bursts - back) % kBurstsKept;
    used[seen++] = {past.durations[at], past.bytes[at]};
  }
  if (seen == 0) return burst;
  const auto last = used.begin() + static_cast<std::ptrdiff_t>(seen);
  std::sort(used.begin(), last);
  const auto& median = used[(seen - 1) / 2];
  burst.length.duration = median.first;
  burst.length.deviation = (used[seen - 1].first - used[0].first) / 2;
  burst.bytes = median.second;
  return burst;
}

std::optional<FlowSetId> PhaseLearner::SetOf(MemberKey key) {
  const Number flow = Find(key);
  return flow == kNone ? std::nullopt : At(flow).set;
}

PhaseLearner::Length PhaseLearner::LengthOf(FlowSetId set) const {
  const auto found = sets_.find(set);
  std::vector<Duration> durations;
  if (found != sets_.end()) {
    for (const Start& start : found->second) {
      const bool is_over = &start != &found->second.back();
      if (is_over && start.last_end) durations.push_back(*start.last_end - start.began);
    }
  }
  return LengthOf(durations);
}

bool PhaseLearner::HasLength(FlowSetId set) const {
  const auto found = sets_.find(set);
  if (found == sets_.end() || found->second.empty()) return false;
  return std::any_of(found->second.begin(), found->second.end() - 1,
                     [](const Start& start) { return start.last_end.has_value(); });
}

std::optional<Duration> PhaseLearner::LastLengthOf(FlowSetId set) const {
  const auto found = sets_.find(set);
  if (found == sets_.end() || found->second.empty()) return std::nullopt;
  const Start& last = found->second.back();
  return last.last_end ? std::optional(*last.last_end - last.began) : std::nullopt;
}

PhaseLearner::Length PhaseLearner::NextLengthOf(FlowSetId set, std::size_t lag) const {
  std::vector<Duration> durations;
  const auto found = sets_.find(set);
  if (found == sets_.end()) return {};
  const auto& starts = found->second;
  for (std::size_t back = lag; back <= starts.size(); back += lag) {
    const Start& start = starts[starts.size() - back];
    if (start.last_end) durations.push_back(*start.last_end - start.began);
  }
  return LengthOf(durations);
}

PhaseLearner::Turn PhaseLearner::TurnOf(FlowSetId set, std::size_t lag, std::size_t turn) const {
  Turn result;
  const auto found = sets_.find(set);
  if (found == sets_.end()) return result;
  const auto& starts = found->second;
  std::vector<Duration> durations;
  std::vector<Seen> lists;  // each once, as most starts share one
  std::size_t looked_at = 0;
  for (std::size_t back = turn; back < starts.size(); back += lag) {
    const Start& start = starts[starts.size() - 1 - back];
    if (back > 0 && start.last_end) durations.push_back(*start.last_end - start.began);
    if (start.others == nullptr) continue;
    const bool is_recent = ++looked_at <= kLatest;
    const auto known = std::ranges::find(lists, &start.others->keys, &Seen::keys);
    if (known == lists.end()) {
      lists.push_back({&start.others->keys, 1, is_recent});
    } else {
      ++known->times;
      known->is_recent = known->is_recent || is_recent;
    }
  }
  result.length = LengthOf(durations);
  result.others = OftenIn(lists, looked_at);
  return result;
}

std::uint64_t PhaseLearner::DigestOfTurn(FlowSetId set, std::size_t lag, std::size_t turn) const {
  const auto found = sets_.find(set);
  std::uint64_t digest = lag;
  if (found == sets_.end()) return digest;
  const auto& starts = found->second;
  for (std::size_t back = turn; back < starts.size(); back += lag) {
    const Start& start = starts[starts.size() - 1 - back];
    if (start.others != nullptr) digest = Mix64(digest ^ start.others->digest);
  }
  return digest;
}

std::vector<MemberKey> PhaseLearner::OftenIn(std::span<const Seen> lists, std::size_t looked_at) {
  if (lists.size() == 1) return lists[0].is_recent ? *lists[0].keys : std::vector<MemberKey>();
  std::vector<std::pair<MemberKey, const Seen*>> all;
  for (const Seen& list : lists) {
    for (const MemberKey key : *list.keys) all.emplace_back(key, &list);
  }
  std::ranges::sort(all, {}, &std::pair<MemberKey, const Seen*>::first);
  std::vector<MemberKey> often;
  for (auto next = all.begin(); next != all.end();) {
    const MemberKey key = next->first;
    std::size_t times = 0;
    bool is_recent = false;
    for (; next != all.end() && next->first == key; ++next) {
      times += next->second->times;
      is_recent = is_recent || next->second->is_recent;
    }
    const bool may_be_chance = times == 1 && looked_at > 1;
    if (is_recent && !may_be_chance && kOnceIn * times >= looked_at) often.push_back(key);
  }
  return often;
}

}  // namespace espalier::controller
