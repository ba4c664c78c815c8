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
  // Arrivals of unknown flows at most this far apart are learned as one set. If it is too small, a
  // set is split in two, which are then predicted separately.
  Duration together = std::chrono::milliseconds(20);
  std::size_t max_members = 16'384;  // of all sets; further flows are not learned
  std::size_t max_sets = 64;         // beyond that, the set that started least recently is dropped
};

// Learns from the arrivals of one training job which flows it starts together and when, and
// predicts the next starts (Routing for Large ML Models, section 3.4.2).
//
// Flows that arrive together form a set, for example the rings of a collective or a pipeline stage.
// Each set is predicted separately, so collectives that interleave in changing order are no harder
// than one. A member that arrives late still belongs to the present start of its set, so a
// straggler delays only itself. A member that misses three starts in a row leaves the set. The next
// start is predicted from the last one plus a gap, or from the last start of the preceding set plus
// an offset, whichever has varied less. Gaps may repeat with a lag, if a set starts several times
// per iteration; the predicted gap is the median of the latest ones at that lag. Checkpoint pauses,
// jitter and drift of the iteration time thus do little harm.
//
// Switches itself off (IsOn) while most arrivals are not predicted, and continues to learn.
//
// Complexity: HandleStart O(sets of the flow), and O(members) when a set starts or is learned;
// memory O(max_members + max_sets). Deterministic: times are arguments, no clock is read; a time
// before the last one counts as the last one. Thread safety: one thread.
class CycleLearner {
 public:
  // Identifies a flow of the job; the same each time that it arrives.
  using Key = StrongId<struct MemberKeyTag, std::uint64_t>;
  using SetId = StrongId<struct FlowSetTag, std::uint32_t>;

  explicit CycleLearner(CycleOptions options = {}) : options_(options) {}

  // Takes an arrival. True if it was predicted: the flow is a member of a learned or declared set.
  bool HandleStart(Key key, std::uint64_t bytes, TimePoint now);
  // Adds a set that the job declares, which starts every `period` (0: not known). Members of sets
  // declared before are left there.
  void Declare(std::span<const Key> members, std::uint64_t bytes_each, Duration period);

  struct Member {
    Key key;
    std::uint64_t bytes = 0;                // median of `recent`
    bool has_started = false;               // in the present start of the set
    std::uint8_t missed_starts = 0;         // in a row
    std::array<std::uint64_t, 3> recent{};  // bytes of the latest starts, oldest first
  };
  struct Next {
    SetId set;
    // None if it is not known yet, as after the first start.
    std::optional<TimePoint> expected;
    Duration uncertainty{};  // most starts differ from `expected` by at most this
    double confidence = 0;   // share of the latest gaps that were as predicted
  };
  // The sets that will start again, the earliest first, those without a time last.
  std::vector<Next> Upcoming();
  // The members in the order in which they were learned; empty if there is no such set.
  std::span<const Member> MembersOf(SetId set) const;
  // How often the set has started.
  std::uint64_t StartsOf(SetId set) const;
  // Whether some members have started, and the others may follow at any moment.
  bool HasPartlyStarted(SetId set) const;
  // Grows whenever the result of Upcoming may change.
  std::uint64_t changes() const { return changes_; }
  // Makes pending flows a set if no unknown flow has arrived for `together`. HandleStart does this,
  // too.
  void Tick(TimePoint now);
  // The duration of the job's iterations: the time after which starts of the largest set repeat.
  std::optional<Duration> Period();

  bool IsOn() const { return is_on_; }
  // Predicted and not predicted arrivals, since the job has had a set.
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
    std::unordered_map<Key, std::uint32_t> place;  // index into members
    std::size_t started = 0;                       // members of the present start
    std::uint64_t starts = 0;
    std::deque<TimePoint> times;   // of the latest starts
    std::optional<SetId> before;   // the set that started before it the last time
    std::deque<Duration> offsets;  // from starts of `before` to its own
    // What was learned of the gaps between `times`. The latest gap is learned only when a forecast
    // is needed, because flows wait while their start is handled.
    bool has_new_gap = false;
    std::size_t lag = 1;
    std::optional<Duration> gap;  // the predicted next gap
    Duration deviation{};
    double confidence = 0;
  };
  struct Forecast {
    TimePoint time;
    Duration deviation{};
  };

  Set* Find(SetId id);
  const Set* Find(SetId id) const;
  // The set to whose present or next start this arrival belongs; null: none.
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

  // Learns lag, gap, deviation and confidence from the times of its starts.
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
  std::vector<std::pair<Key, std::uint64_t>> pending_;  // unknown flows that arrived together
  std::unordered_set<Key> pending_keys_;
  TimePoint pending_first_{};
  TimePoint pending_last_{};
  double score_ = 1;
  bool is_on_ = true;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace espalier::controller
