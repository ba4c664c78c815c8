#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/prediction/learned_set.h"
#include "controller/prediction/phase_learner.h"
#include "controller/prediction/prediction_errors.h"

namespace espalier::controller {

struct CycleOptions {
  // Arrivals of unknown flows at most this far apart are learned as one set. If it is too small, a
  // set is split in two, which are then predicted separately.
  Duration together = std::chrono::milliseconds(20);
  std::size_t max_members = 16'384;  // of all sets; further flows are not learned
  std::size_t max_sets = 64;         // beyond that, the set that started least recently is dropped
  // A flow that is idle for less goes on with what it did, as between the steps of a ring.
  Duration pause = std::chrono::milliseconds(5);
  // Ends are told up to this late (FlowReporterOptions::idle_told_within, and the way).
  Duration told_within = std::chrono::milliseconds(60);
};

// Learns from the activity of one training job which flows it starts together and when, and
// predicts the next starts (Routing for Large ML Models, section 3.4.2). With the ends of flows, it
// also learns the job's phases. A flow starts when its connection opens or becomes busy, and ends
// when it closes or becomes idle.
//
// Flows that arrive together form a set, for example the rings of a collective or a pipeline stage.
// Each set is predicted separately, so collectives that interleave in changing order are no harder
// than one. A member that arrives late still belongs to the present start of its set, so a
// straggler delays only itself. A member that misses three starts in a row leaves the set. If a set
// starts with some of its members and with others in turn, the flows are in several phases, or
// belong to two jobs: each such group becomes a set of its own, and a flow may then be a member of
// several sets. If some members of a set always start after the others have ended, they are another
// phase, and become a set of their own (StartOrder). If all flows of a job first arrived together,
// for example after a pause of the network, the learned sets can be wrong. If no phases emerge,
// they are discarded and learned again. The next start is predicted from the last one plus a gap,
// or from the last start of the preceding set plus an offset, whichever has varied less. Gaps may
// repeat with a lag, if a set starts several times per iteration (StartTimes). Checkpoint pauses,
// jitter and drift of the iteration time thus do little harm.
//
// Switches itself off (IsOn) while most arrivals are not predicted, and continues to learn.
//
// Complexity: HandleStart O(sets of the flow), and O(flows of the job) when a set starts or is
// learned; HandleEnd O(1); Phases O(its result x starts kept). Memory O(max_members + max_sets),
// and the lists of PhaseLearner. Deterministic: times are arguments, no clock is read; a time
// before the last one counts as the last one. Thread safety: one thread.
class CycleLearner {
 public:
  using Key = MemberKey;
  using SetId = FlowSetId;

  explicit CycleLearner(CycleOptions options = {})
      : options_(options),
        activity_({.together = options.together,
                   .pause = options.pause,
                   .told_within = options.told_within,
                   .max_flows = 2 * options.max_members}) {}

  // Where it finds its flows: for PhaseLearner::Expect, NumberOf and Prefetch.
  PhaseLearner& activity() { return activity_; }
  // Takes an arrival. True if it was predicted: the flow is a member of a learned or declared set.
  // A flow that only continues after a pause counts as neither predicted nor missed.
  bool HandleStart(Key key, std::uint64_t bytes, TimePoint now);
  // Takes an end, and what the flow has sent since the one before (0: not known). Ends that are
  // never reported do little harm: see PhaseLearner.
  void HandleEnd(Key key, TimePoint now, std::uint64_t bytes = 0);
  // Adds a set that the job declares, which starts every `period` (0: not known). Members of sets
  // declared before are left there.
  void Declare(std::span<const Key> members, std::uint64_t bytes_each, Duration period);

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
  std::span<const SetMember> MembersOf(SetId set) const;
  // What the flow's present burst took when the set with which it started was at the same turn
  // before. Length::seen: 0 if that is not known. O(sets).
  PhaseLearner::Burst UsualBurstOf(Key key);
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

  // By set, and for sets that start several times per iteration, by turn. Empty until they are
  // learned. Flows that are members of no regular set are in no phase.
  std::vector<LearnedPhase> Phases();
  // Identifies what Phases tells, but durations and bytes: as long as it is the same, so are they.
  // It may change without them. O(sets x starts kept).
  std::uint64_t DigestOfPhases();
  // Whether nine of ten members belong to sets with at least three starts, most of which repeat as
  // predicted, and with known durations. Once they do, half of the members are enough, and a
  // quarter of the starts, and a set counts as regular for kPhasesHeldFor after it was so. Thus a
  // disturbance does not end it, and a job that has lost its order does, later. While the job has
  // no busy flow, as during a checkpoint, this stays as it is.
  bool ArePhasesLearned();

  bool IsOn() const { return is_on_; }
  // The share of the members of sets that take part in their starts, mostly in the latest ones.
  double share_predicted() const { return score_; }
  bool IsMember(Key key) const { return places_.contains(key); }
  // Of the starts of sets, and of their ends, against what was predicted before they started.
  struct Errors {
    PredictionErrors starts;
    PredictionErrors ends;
  };
  const Errors& errors() const { return errors_; }
  std::size_t set_count() const { return sets_.size(); }
  std::size_t member_count() const { return member_count_; }
  TimePoint last_start() const { return last_start_; }

 private:
  // Where a flow is in a set: an index into its members.
  struct Place {
    SetId set;
    std::uint32_t index = 0;
  };
  struct Pending {
    Key key;
    std::uint64_t bytes = 0;
    TimePoint at;
  };
  struct Chosen {
    LearnedSet* set = nullptr;
    std::uint32_t index = 0;
  };
  static constexpr std::uint32_t kNowhere = 0xFFFF'FFFF;  // no index
  // Starts of each flow before its set may be learned again: more than are needed to split it.
  static constexpr std::uint64_t kPatience = 16;
  LearnedSet* Find(SetId id);
  const LearnedSet* Find(SetId id) const;
  // The set to whose present or next start this arrival belongs, and its place there; null: none.
  Chosen ChooseSet(Key key);
  void BeginStart(LearnedSet& set);
  void EndStart(LearnedSet& set);
  void TakeMember(LearnedSet& set, std::uint32_t index, std::uint64_t bytes);
  void AddMember(LearnedSet& set, Key key, std::uint64_t bytes);
  void DropMembers(LearnedSet& set, const std::function<bool(const SetMember&)>& is_to_go);
  void LearnPending();
  void DropSet(SetId id);
  void DropLeastRecentlySeen();
  void Score(double share_expected, std::size_t starts);
  // Forgets sets of which always others start, if that has kept the phases from being learned.
  void LearnAnew();

  // Sets the shape of the start that is over, and notes the variant that it shows.
  void NoteShape(LearnedSet& set);
  // Makes the noted variant a set. The set that it is from goes if all its members are in variants.
  void SplitOffVariant();
  void SplitOffLaterPhase(const SetVariant& later);

  std::optional<StartForecast> ForecastOf(const LearnedSet& set) const;

  CycleOptions options_;
  PhaseLearner activity_;
  std::vector<LearnedSet> sets_;
  std::unordered_map<Key, std::vector<Place>> places_;  // of each flow that is in a set
  std::vector<Place> usual_;  // by number: the place of a flow that is in one set, or was
  std::size_t member_count_ = 0;
  std::uint32_t next_id_ = 0;
  std::optional<SetId> last_set_;
  std::uint64_t changes_ = 0;
  std::uint64_t member_changes_ = 0;  // times that flows have come into sets or left them
  TimePoint now_{};
  TimePoint last_start_{};
  std::vector<Pending> pending_;  // unknown flows that arrived together
  std::unordered_set<Key> pending_keys_;
  TimePoint pending_first_{};
  TimePoint pending_last_{};
  std::optional<SetVariant> variant_;
  std::uint64_t taken_ = 0;             // starts of members, since LearnAnew looked at their sets
  std::uint64_t patience_ = kPatience;  // of each flow, on average, until it looks again
  double score_ = 1;
  bool is_on_ = true;
  bool are_phases_learned_ = false;
  Errors errors_;
};

}  // namespace espalier::controller
