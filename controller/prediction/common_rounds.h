#pragma once

#include <optional>
#include <span>

#include "common/base/time/event_loop.h"

namespace espalier::controller {

// Whether two flows become busy in common rounds, as the flows of one training job do, by the times
// at which each became busy.
//
// A start of one flow lies somewhere between two starts of the other one: that is its place in the
// other's cycle, from 0 to 1. If both belong to one job, the place stays the same from round to
// round, however long rounds last. If they belong to different jobs, it wanders, as their rounds
// differ in length. A flow that starts several times in each round has several places in the
// other's cycle, but the other one has one place in its cycles. So both directions are looked at:
// one in which places stay is enough for common rounds, and flows are apart only if places wander
// in both.
//
// Places are averaged as angles (circular statistics) in four windows, one after the other, in
// which both flows have starts. They wander if no two neighbouring windows agree: in each, the
// places are spread over the circle or their mean has turned by more than an eighth. A single
// change of a job's order is thus no evidence. They stay if the last two windows are narrow and
// agree. Places that are spread may also belong to a flow that starts several times in a round.
// Such flows are not apart if one starts a whole number of times for each start of the other one.
//
// Limits: rounds whose lengths are, to about 1%, a multiple of each other are not distinguished,
// nor are rounds that differ by less than about one part in the number of known starts. Flows of
// one job that start two and three times in a round are wrongly separated; RoundGroups then needs a
// flow that starts once.
enum class Rounds {
  kCommon,
  kApart,
  kUnknown,  // too few starts, or neither
};

// Starts that a comparison needs of the flow that starts less often, within those of the other.
inline constexpr std::size_t kStartsCompared = 32;

// The times ascend. O(starts x log starts): some 40 us for 512 of each.
Rounds CompareRounds(std::span<const TimePoint> a, std::span<const TimePoint> b);

// The usual time from a start to the next one, by the latest starts, if they are regular: the time
// from a start to the k-th after it is mostly the same to one part in 5k, for a k of at most four.
// None: irregular, or fewer than kStartsCompared starts.
std::optional<Duration> RegularGap(std::span<const TimePoint> starts);

}  // namespace espalier::controller
