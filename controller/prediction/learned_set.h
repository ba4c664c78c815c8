#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/prediction/phase_learner.h"
#include "controller/prediction/start_order.h"
#include "controller/prediction/start_times.h"

namespace espalier::controller {

struct SetMember {
  MemberKey key;
  std::uint64_t bytes = 0;                // median of `recent`
  bool has_started = false;               // in the present start of the set
  std::uint8_t missed_starts = 0;         // in a row
  std::array<std::uint64_t, 3> recent{};  // bytes of the latest starts, oldest first
};

struct StartForecast {
  TimePoint time;
  Duration deviation{};
};

// Members of a set that start without the others in turn, or after them.
struct SetVariant {
  FlowSetId of;
  std::uint64_t shape = 0;
  std::vector<std::pair<MemberKey, std::uint64_t>> members;  // and their bytes
  std::optional<Duration> after;                             // after the others: so long
};

// What CycleLearner knows of flows that start together.
struct LearnedSet {
  std::optional<StartForecast> ForecastByGap() const;
  // The members that always start after the others have ended, if there are any. O(members).
  std::optional<SetVariant> LaterPhase(PhaseLearner& activity) const;
  // Whether the present start has lasted so long that members that have not started miss it.
  bool IsLate(TimePoint now, Duration together) const;
  // Whether its starts repeat as predicted, with known durations.
  bool IsRegular(const PhaseLearner& activity) const;

  FlowSetId id;
  bool is_declared = false;
  Duration declared_period{};
  std::optional<FlowSetId> split_from;
  std::vector<SetMember> members;
  std::size_t started = 0;  // members of the present start
  std::uint64_t starts = 0;
  double share = 1;  // of the members that took part in starts, mostly in the latest
  // At the latest UpdateRegularity: it had started often enough, as predicted, and its duration was
  // known, or that was so less than kPhasesHeldFor ago; and the job had not gone on without it.
  bool was_regular = false;
  bool is_in_phase = false;
  TimePoint regular_at{};                   // the last time
  std::optional<Duration> expected_length;  // of the present start
  StartTimes times;
  StartOrder order;                 // of members by index
  std::optional<FlowSetId> before;  // the set that started before it the last time
  std::deque<Duration> offsets;     // from starts of `before` to its own
};

// A disturbance of less does not end a set's regularity.
inline constexpr Duration kPhasesHeldFor = std::chrono::seconds(10);

// Updates which sets are regular and in a phase, and returns whether nine of ten members belong to
// sets that are; once they did (`were_learned`), half of the members are enough. `active_until`:
// the latest time at which the job was seen to be active. O(sets x starts kept).
bool UpdateRegularity(std::span<LearnedSet> sets, const PhaseLearner& activity, bool is_on,
                      bool were_learned, TimePoint active_until);

// Flows of a job that are busy together.
struct LearnedPhase {
  std::vector<MemberKey> members;  // of the set that starts, and others that are often busy then
  FlowSetId starts;
  std::optional<Duration> period;  // of the phase
  Duration duration{};             // until the set has ended; the median
  Duration deviation{};            // half of the durations differ by at most this
  std::uint64_t bytes = 0;         // of the set's members
};

// The phases of the sets that are in one: by set, and for sets that start several times per
// iteration, by turn. O(result x starts kept).
std::vector<LearnedPhase> PhasesOf(std::span<const LearnedSet> sets, const PhaseLearner& activity);

// Identifies what PhasesOf returns but durations and bytes, if `seed` identifies the members of the
// sets. O(sets x starts kept).
std::uint64_t DigestOfPhases(std::span<const LearnedSet> sets, const PhaseLearner& activity,
                             std::uint64_t seed);

}  // namespace espalier::controller
