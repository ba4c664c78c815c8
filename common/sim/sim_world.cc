#include "common/sim/sim_world.h"

#include <algorithm>
#include <utility>

namespace espalier::sim {
namespace {

// Virtual clocks do not start at 0, which some code takes as "never".
constexpr Duration kStart = std::chrono::hours(1);

// Immediate callbacks run a nanosecond later, so that callbacks that post themselves forever do not
// stop the clock.
constexpr Duration kAtOnce{1};

TimePoint Later(TimePoint now, Duration delay) {
  return now + std::min(delay, TimePoint::max() - now);
}

}  // namespace

class SimWorld::VirtualTimer : public Timer {
 public:
  VirtualTimer(SimWorld& world, const Entry& entry) : world_(world), entry_(entry) {}
  ~VirtualTimer() override { world_.Cancel(entry_); }

 private:
  SimWorld& world_;
  const Entry entry_;
};

class SimWorld::Loop : public EventLoop {
 public:
  Loop(SimWorld& world, std::size_t index) : world_(world), index_(index) {}
  ~Loop() override { world_.CloseLoop(index_); }

  TimePoint Now() const override { return world_.Now(); }
  void Post(Callback callback) override { world_.Post(index_, std::move(callback)); }
  TimerPtr After(Duration delay, Callback callback) override {
    const TimePoint due = sim::Later(world_.Now(), std::max(delay, kAtOnce));
    return std::make_unique<VirtualTimer>(world_,
                                          world_.Schedule(index_, due, std::move(callback)));
  }

 private:
  SimWorld& world_;
  const std::size_t index_;
};

SimWorld::SimWorld(std::uint64_t seed) : random_(seed), now_ns_(kStart.count()) {}

SimWorld::~SimWorld() {
  // One by one, as a callback may own timers, whose destructors use the slots.
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const EventLoop::Callback last = std::move(slots_[i].callback);
    slots_[i].callback = nullptr;
  }
}

std::unique_ptr<EventLoop> SimWorld::MakeLoop() {
  loop_is_open_.push_back(true);
  return std::make_unique<Loop>(*this, loop_is_open_.size() - 1);
}

TimePoint SimWorld::Now() const { return TimePoint(Duration(now_ns_.load())); }

bool SimWorld::Step() {
  const Entry* const next = Next();
  if (next == nullptr) return false;
  const Entry entry = *next;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  heap_.pop_back();
  now_ns_ = entry.due.time_since_epoch().count();
  Slot& slot = slots_[entry.slot];
  const std::size_t loop = slot.loop;
  const EventLoop::Callback callback = std::exchange(slot.callback, nullptr);
  slot.sequence = 0;
  free_slots_.push_back(entry.slot);
  ++callbacks_run_;
  Mix(static_cast<std::uint64_t>(now_ns_));
  Mix(loop);
  callback();
  return true;
}

void SimWorld::RunFor(Duration duration) {
  const TimePoint end = sim::Later(Now(), duration);
  for (const Entry* next = Next(); next != nullptr && next->due <= end; next = Next()) Step();
  now_ns_ = end.time_since_epoch().count();
}

bool SimWorld::RunUntil(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = sim::Later(Now(), limit);
  while (!done()) {
    const Entry* const next = Next();
    if (next == nullptr || next->due > end) return false;
    Step();
  }
  return true;
}

void SimWorld::Trace(std::string_view bytes) {
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  Mix(hash);
}

bool SimWorld::Later(const Entry& a, const Entry& b) {
  return a.due != b.due ? a.due > b.due : a.sequence > b.sequence;
}

SimWorld::Entry SimWorld::Schedule(std::size_t loop, TimePoint due, EventLoop::Callback callback) {
  if (free_slots_.empty()) {
    free_slots_.push_back(slots_.size());
    slots_.emplace_back();
  }
  const Entry entry{due, next_sequence_++, free_slots_.back()};
  free_slots_.pop_back();
  slots_[entry.slot] = {std::move(callback), entry.sequence, loop};
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(), Later);
  return entry;
}

void SimWorld::Post(std::size_t loop, EventLoop::Callback callback) {
  if (std::this_thread::get_id() == thread_) {
    Schedule(loop, sim::Later(Now(), kAtOnce), std::move(callback));
    return;
  }
  const std::lock_guard lock(inbox_mutex_);
  inbox_.push_back({loop, std::move(callback)});
  inbox_is_filled_ = true;
}

void SimWorld::Cancel(const Entry& entry) {
  Slot& slot = slots_[entry.slot];
  if (slot.sequence != entry.sequence) return;
  slot.sequence = 0;
  // The slot is freed before the callback is destroyed, which may cancel others.
  const EventLoop::Callback last = std::exchange(slot.callback, nullptr);
  free_slots_.push_back(entry.slot);
}

void SimWorld::CloseLoop(std::size_t loop) {
  loop_is_open_[loop] = false;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].sequence != 0 && slots_[i].loop == loop) Cancel({{}, slots_[i].sequence, i});
  }
}

void SimWorld::TakeInbox() {
  if (!inbox_is_filled_) return;
  std::vector<Posted> taken;
  {
    const std::lock_guard lock(inbox_mutex_);
    taken.swap(inbox_);
    inbox_is_filled_ = false;
  }
  for (Posted& posted : taken) {
    if (!loop_is_open_[posted.loop]) continue;
    Schedule(posted.loop, sim::Later(Now(), kAtOnce), std::move(posted.callback));
  }
}

const SimWorld::Entry* SimWorld::Next() {
  TakeInbox();
  while (!heap_.empty() && slots_[heap_.front().slot].sequence != heap_.front().sequence) {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    heap_.pop_back();
  }
  return heap_.empty() ? nullptr : &heap_.front();
}

void SimWorld::Mix(std::uint64_t value) { trace_hash_ = Random(trace_hash_ ^ value).Next(); }

}  // namespace espalier::sim
