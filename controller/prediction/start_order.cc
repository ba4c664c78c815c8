#include "controller/prediction/start_order.h"

#include <algorithm>

namespace espalier::controller {

void StartOrder::Take(std::uint32_t index, Duration after) {
  if (IsOver()) return;
  if (index >= members_.size()) members_.resize(index + 1);
  Member& member = members_[index];
  member.after = member.has_started ? member.after + (after - member.after) / 4 : after;
  member.has_started = true;
  if (!are_candidates_) return;
  if (member.is_later) {
    has_later_ = true;
  } else {
    has_earlier_ = true;
    is_in_order_ = is_in_order_ && !has_later_;
  }
}

void StartOrder::EndStart() {
  if (IsOver()) return;
  ++starts_;
  if (are_candidates_) {
    const bool agrees = has_earlier_ && has_later_ && is_in_order_;
    in_order_ = agrees ? in_order_ + 1 : 0;
    are_candidates_ = agrees;
  }
  has_earlier_ = has_later_ = false;
  is_in_order_ = true;
  if (!are_candidates_) Part();
  if (IsOver()) Stop();
}

void StartOrder::Stop() {
  members_ = {};
  in_order_ = 0;
  starts_ = kStartsSeen;
}

void StartOrder::Part() {
  std::vector<Duration> times;
  times.reserve(members_.size());
  for (const Member& member : members_) {
    if (member.has_started) times.push_back(member.after);
  }
  std::ranges::sort(times);
  Duration furthest = least_apart_ - Duration(1);
  Duration later_from{};
  for (std::size_t i = 1; i < times.size(); ++i) {
    const Duration apart = times[i] - times[i - 1];
    if (apart <= furthest) continue;
    furthest = apart;
    later_from = times[i];
    are_candidates_ = true;
  }
  for (Member& member : members_) member.is_later = are_candidates_ && member.after >= later_from;
}

}  // namespace espalier::controller
