#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/strong_id.h"
#include "common/base/time/event_loop.h"

namespace espalier::controller {

// Identifies a flow of a job; the same each time that it arrives.
using MemberKey = StrongId<struct MemberKeyTag, std::uint64_t>;
// Identifies a set of flows that a job starts together.
using FlowSetId = StrongId<struct FlowSetTag, std::uint32_t>;

// Learns how long the sets of one job are busy, and which other flows are busy at the same time.
//
// A start of a set lasts until the last of its members becomes idle. Members whose end is never
// reported are left out: they count as busy for at most twice the set's usual duration. Other flows
// count for a start if they are busy for longer than `pause` within `together` of it, or then.
// Flows are learned one by one and not by set, as those of one set may last differently.
//
// Complexity: O(1) per flow, O(flows that are busy or have just ended) per start of a set. Memory:
// O(max_flows) for flows, O(kStartsKept) distinct lists of flows for each set. Thread safety: one
// thread.
class PhaseLearner {
 public:
  struct Options {
    Duration together{};
    Duration pause{};        // a flow that is idle for less has not ended
    Duration told_within{};  // ends are told up to this late
    std::size_t max_flows = 0;
  };
  // Flows are numbered densely, in the order in which they came up. A number is that of one flow
  // until it is forgotten.
  using Number = std::uint32_t;
  static constexpr Number kNone = 0xFFFF'FFFF;

  explicit PhaseLearner(const Options& options) : options_(options) {}
  PhaseLearner(const PhaseLearner&) = delete;
  PhaseLearner& operator=(const PhaseLearner&) = delete;

  // The next calls may be about this flow, which had this number: then they need not look it up.
  void Expect(MemberKey key, Number number) {
    if (number < flows_.size() && flows_[number].is_known && flows_[number].key == key) {
      recent_ = number;
    }
  }
  Number NumberOf(MemberKey key) { return Find(key); }  // kNone: not known
  // Begins to load what the calls about this flow read.
  void Prefetch(Number number) const {
    if (number >= flows_.size()) return;
    __builtin_prefetch(&flows_[number], 1);
    __builtin_prefetch(&pasts_[number].bursts, 1);
    __builtin_prefetch(&pasts_[number].durations, 1);
  }
  // Takes a busy edge. False: it only continues after a pause.
  bool HandleStart(MemberKey key, TimePoint now);
  // Takes an idle edge, told late or not, and what the flow has sent since the one before (0: not
  // known). Ignored if the flow is not busy.
  void HandleEnd(MemberKey key, TimePoint now, std::uint64_t bytes = 0);
  // The set starts. Its members follow by Join, each after its HandleStart.
  void BeginStart(FlowSetId set, TimePoint now);
  void Join(FlowSetId set, MemberKey key);
  void Drop(FlowSetId set) { sets_.erase(set); }
  // The second set has been part of the first one so far, and has started so much later, but not
  // yet the last time.
  void Divide(FlowSetId from, FlowSetId to, Duration later);
  // Forgets an idle flow.
  void Forget(MemberKey key);
  // Whether a flow is busy, as far as is known.
  bool IsAnyBusy() const { return busy_ != kNone; }
  // Looks at the starts at which all that were busy within `together` are known by now.
  void Tick(TimePoint now);

  // How often the set's duration has been seen, and the median and its usual deviation.
  struct Length {
    std::size_t seen = 0;
    Duration duration{};
    Duration deviation{};
  };
  Length LengthOf(FlowSetId set) const;
  bool HasLength(FlowSetId set) const;  // Length::seen > 0
  // How long the latest start has been; none: no member has ended yet.
  std::optional<Duration> LastLengthOf(FlowSetId set) const;
  // The usual length of the starts that lie `lag`, 2 * lag, ... before the next one.
  Length NextLengthOf(FlowSetId set, std::size_t lag) const;
  // Of the starts of a set that repeats after `lag` starts: those that are `turn` (0 to lag - 1)
  // before the last in each round. `others`: flows, also of the set, that were busy in at least a
  // quarter of them, in more than one of two or more, and in one of the latest four.
  struct Turn {
    Length length;
    std::vector<MemberKey> others;
  };
  Turn TurnOf(FlowSetId set, std::size_t lag, std::size_t turn) const;
  // Identifies the lists from which TurnOf makes `others`: they are the same as long as it is.
  std::uint64_t DigestOfTurn(FlowSetId set, std::size_t lag, std::size_t turn) const;

  // How long one flow was busy, and what it sent, in the latest of its bursts that lie `lag`, 2 *
  // lag, ... before the present one: the medians. `bytes`: 0 if not known.
  struct Burst {
    Length length;
    std::uint64_t bytes = 0;
  };
  Burst BurstOf(MemberKey key, std::size_t lag);
  // The set with which the flow started last.
  std::optional<FlowSetId> SetOf(MemberKey key);
  // So far: lists of flows that were busy together and were not known from an earlier start.
  std::uint64_t lists_made() const { return lists_made_; }

 private:
  static constexpr std::size_t kBurstsKept = 8;
  // What each start of a set reads of many flows: one cache line.
  struct alignas(64) Activity {
    TimePoint began;
    TimePoint ended;
    TimePoint before_began;  // of the burst before
    TimePoint before_ended;
    MemberKey key;
    Number before = kNone;  // in its list
    Number after = kNone;
    std::optional<FlowSetId> set;
    bool is_known = false;  // else its number is free
    bool is_busy = false;
    bool has_ended = false;
  };
  // The durations and bytes of a flow's bursts, by number modulo kBurstsKept, and their number.
  struct Past {
    std::array<Duration, kBurstsKept> durations{};
    std::array<std::uint64_t, kBurstsKept> bytes{};
    std::size_t bursts = 0;
  };
  // Flows, ascending, and a digest that identifies them in any order.
  struct KeyList {
    std::vector<MemberKey> keys;
    std::uint64_t digest = 0;
  };
  using Keys = std::shared_ptr<const KeyList>;
  struct Start {
    TimePoint began;
    std::optional<TimePoint> last_end;  // of its members
    Keys others;                        // null: not looked at yet
  };

  // A list of the flows that were busy at starts of a set.
  struct Seen {
    const std::vector<MemberKey>* keys = nullptr;
    std::size_t times = 0;   // starts at which it was this one
    bool is_recent = false;  // one of them is one of the latest kLatest
  };

  // The flows that are in enough of these lists: see Turn. O(flows) if there is one list.
  static std::vector<MemberKey> OftenIn(std::span<const Seen> lists, std::size_t looked_at);
  Number Find(MemberKey key);  // kNone: not known
  Number Add(MemberKey key);
  Activity& At(Number flow) { return flows_[flow]; }
  void LookAt(FlowSetId set, Start& start);
  TimePoint LookTimeOf(const Start& start) const {
    return start.began + options_.together + options_.told_within;
  }
  // Whether a burst from `began` to `ended` counts for the start.
  bool IsBusyAt(const Start& start, TimePoint began, TimePoint ended) const;
  void Link(Number flow, Number& list);
  void Unlink(Number flow);
  static Length LengthOf(const std::vector<Duration>& durations);

  const Options options_;
  std::unordered_map<MemberKey, Number> numbers_;
  std::vector<Activity> flows_;  // by number
  std::vector<Past> pasts_;      // the same
  std::vector<Number> free_;     // of forgotten flows
  Number recent_ = kNone;        // the latest that was looked up, as one edge needs it often
  // The first of all busy flows, and of those that have ended, in the order in which that was told,
  // the latest first. Few of a job's flows matter to a start.
  Number busy_ = kNone;
  Number ended_ = kNone;
  std::vector<MemberKey> found_;  // by LookAt, which would allocate it each time
  std::unordered_map<FlowSetId, std::deque<Start>> sets_;
  std::uint64_t lists_made_ = 0;
  bool has_ends_ = false;              // without any, there is nothing to learn
  std::vector<FlowSetId> new_starts_;  // sets whose last start has not been looked at
  TimePoint next_look_ = TimePoint::max();
};

}  // namespace espalier::controller
