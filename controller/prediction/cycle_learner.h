#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/strong_id.h"

namespace espalier::controller {

struct CycleOptions {
  // Starts of unknown flows that are no further apart than this are learned as one set. Too small
  // a value only cuts a set in two, which are then predicted each by itself.
  Duration together = std::chrono::milliseconds(20);
  std::size_t max_members = 16'384;  // of all sets; further flows are not learned
  std::size_t max_sets = 64;         // the one that has not started for longest makes room
};

// What one training job will start next, learned from what it has started (Routing for Large ML
// Models, section 3.4.2).
//
// Flows that started together are a set (the rings of a collective, a pipeline stage, ...). Each
// set is a process of its own, whatever the other sets do: so collectives that interleave in
// changing order are no harder than one. A member that comes late still belongs to its set's
// present start (a straggler delays nothing but itself); one that stays away three times in a row
// has left the set. The next start is expected a gap after the last one, or an offset after the set
// that came before it, whichever has varied less; the gap is a median of the latest ones at the lag
// at which gaps repeat (several starts an iteration have gaps of their own), so that pauses for a
// checkpoint, jitter and drift of the iteration time do little harm.
//
// Switches itself off (IsOn) while starts are unexpected more often than expected, and learns on.
//
// Complexity: HandleStart O(sets of the flow), and O(members) when a set starts or is learned;
// memory O(max_members + max_sets). Deterministic; times are given, no clock is read; a time before
// the last one counts as the last one. Thread safety: one thread.
class CycleLearner {
 public:
  // Names a flow of the job, the same each time that it comes.
  using Key = StrongId<struct MemberKeyTag, std::uint64_t>;
  using SetId = StrongId<struct FlowSetTag, std::uint32_t>;

  explicit CycleLearner(CycleOptions options = {}) : options_(options) {}

  // True if it was expected: a member of a set that has been seen (or declared).
  bool HandleStart(Key key, std::uint64_t bytes, TimePoint now);
  // The job itself says what it will start, every `period` (0: it does not know), and needs no
  // first time. Members that are declared already are left as they are.
  void Declare(std::span<const Key> members, std::uint64_t bytes_each, Duration period);

  struct Member {
    Key key;
    std::uint64_t bytes = 0;         // of its last starts the median
    bool has_started = false;        // in the present start of the set
    std::uint8_t missed_starts = 0;  // in a row
    std::array<std::uint64_t, 3> recent{};
  };
  struct Next {
    SetId set;
    // None where it is not known yet: after the first start.
    std::optional<TimePoint> expected;
    Duration uncertainty{};  // most starts are no further from `expected` than this
    double confidence = 0;   // share of its latest gaps that were as predicted
  };
  // The sets that will start again, soonest first, those without a time last.
  std::vector<Next> Upcoming();
  // In the order in which they first came; empty where there is no such set.
  std::span<const Member> MembersOf(SetId set) const;
  // Grows with each start of the set.
  std::uint64_t StartsOf(SetId set) const;
  // Some of its members have started, and the others may follow any moment.
  bool HasPartlyStarted(SetId set) const;
  // Grows whenever Upcoming may say something else.
  std::uint64_t changes() const { return changes_; }
  // Flows that started together are a set from now on, if no start has come for `together`. (The
  // next start would find that out, too.)
  void Tick(TimePoint now);
  // How long the job's iterations take: of the largest set the time between starts that are alike.
  std::optional<Duration> Period();

  bool IsOn() const { return is_on_; }
  // Of all starts that came when there was something to expect.
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }
  double HitRate() const;
  std::size_t set_count() const { return sets_.size(); }
  std::size_t member_count() const { return member_count_; }
  TimePoint last_start() const { return last_start_; }

 private:
  struct Set {
    SetId id;
    bool is_declared = false;
    Duration declared_period{};
    std::vector<Member> members;
    std::unordered_map<Key, std::uint32_t> place;  // in members
    std::size_t started = 0;                       // members in the present start
    std::uint64_t starts = 0;
    std::deque<TimePoint> times;  // of the latest starts
    std::optional<SetId> before;  // the set that started before it, last time
    std::deque<Duration> offsets;
    // Of the gaps between `times`, where there is one; those of the last start are left to be
    // learned where somebody asks for the next, as flows wait for what is done at their start.
    bool has_new_gap = false;
    std::size_t lag = 1;
    std::optional<Duration> gap;  // that is expected next
    Duration deviation{};
    double confidence = 0;
  };
  struct Forecast {
    TimePoint time;
    Duration deviation{};
  };

  Set* Find(SetId id);
  const Set* Find(SetId id) const;
  // The set whose present or next start this belongs to.
  Set* ChooseSet(Key key);
  void BeginStart(Set& set);
  void EndStart(Set& set);
  void TakeMember(Set& set, Key key, std::uint64_t bytes);
  void AddMember(Set& set, Key key, std::uint64_t bytes);
  void DropMembersThatLeft(Set& set);
  void LearnPending();
  void DropSet(SetId id);
  void DropLeastRecentlySeen();
  void Score(double share_expected, std::size_t starts);

  // From the times of its starts.
  static void LearnGap(Set& set);
  void LearnGaps();
  static std::optional<Forecast> ForecastByGap(const Set& set);
  std::optional<Forecast> ForecastByOffset(const Set& set) const;
  std::optional<Forecast> ForecastOf(const Set& set) const;
  bool IsLate(const Set& set) const;

  CycleOptions options_;
  std::vector<Set> sets_;
  std::unordered_map<Key, std::vector<SetId>> sets_of_;
  std::size_t member_count_ = 0;
  std::uint32_t next_id_ = 0;
  std::optional<SetId> last_set_;
  std::uint64_t changes_ = 0;
  TimePoint now_{};
  TimePoint last_start_{};
  std::vector<std::pair<Key, std::uint64_t>> pending_;  // unknown ones that started together
  std::unordered_set<Key> pending_keys_;
  TimePoint pending_first_{};
  TimePoint pending_last_{};
  double score_ = 1;
  bool is_on_ = true;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace espalier::controller
