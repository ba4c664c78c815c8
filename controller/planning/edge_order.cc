#include "controller/planning/edge_order.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {

// Invariant: slices from first_ to first_ + kSlices - 1 are in the ring, and each edge is in that
// of its time, or in the first one if its own has been released. So slices are released in order,
// and edges of a flow, which come in order, stay in order.

Duration EdgeOrder::Greatest::Value() const {
  const Duration greatest = std::max(now, before);
  return greatest > kNegligible ? greatest : Duration{};
}

void EdgeOrder::NoteBusy(TimePoint at, TimePoint now) {
  if (now - window_began_ >= kWindow) {
    const bool is_next = now - window_began_ < 2 * kWindow;
    for (Greatest* const greatest : {&behind_, &way_}) {
      greatest->before = is_next ? greatest->now : Duration{};
      greatest->now = {};
    }
    window_began_ = now;
  }
  behind_.now = std::max(behind_.now, std::min(newest_ - at, kMostWait));
  way_.now = std::max(way_.now, std::min(now - at, kLongestWay));
}

TimePoint EdgeOrder::CompleteUntil(TimePoint now) const {
  return std::max(newest_ - behind_.Value(), now - way_.Value());
}

void EdgeOrder::HandOn(const Edge& edge) {
  if (edge.is_busy) handed_ = std::max(handed_, edge.at);
  due_.push_back(edge);
}

void EdgeOrder::Add(const Edge& edge, TimePoint now) {
  if (std::exchange(is_taken_, false)) due_.clear();
  newest_ = std::max(newest_, edge.at);
  if (edge.is_busy) NoteBusy(edge.at, now);
  if (edge.is_busy && edge.at + kNegligible < handed_) return;  // too late
  if (waiting_ == 0 && behind_.Value() == Duration{}) return HandOn(edge);
  if (ring_.empty()) ring_.resize(kSlices);
  if (waiting_ == 0) first_ = SliceOf(newest_ - kMostWait);
  const Slices slice = std::max(SliceOf(edge.at), first_);
  while (slice - first_ >= static_cast<Slices>(kSlices)) Release();
  std::vector<Edge>& edges = At(slice);
  if (edges.capacity() == 0 && !spare_.empty()) {
    edges = std::move(spare_.back());
    spare_.pop_back();
  }
  edges.push_back(edge);
  ++waiting_;
  while (waiting_ > kMostWaiting) Release();
}

void EdgeOrder::Release() {
  std::vector<Edge>& edges = At(first_++);
  if (edges.empty()) return;
  std::ranges::stable_sort(edges, {}, &Edge::at);
  for (const Edge& edge : edges) HandOn(edge);
  waiting_ -= edges.size();
  edges.clear();
  spare_.push_back(std::move(edges));
  edges = {};
}

std::span<const EdgeOrder::Edge> EdgeOrder::TakeDue(TimePoint now) {
  if (std::exchange(is_taken_, true)) due_.clear();
  // Where nothing is out of order, the slice of the newest edge is complete, too.
  const Slices until = SliceOf(CompleteUntil(now)) + (behind_.Value() == Duration{} ? 1 : 0);
  while (waiting_ > 0 && first_ < until) Release();
  return due_;
}

}  // namespace espalier::controller
