#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::program {

// One access or signal of an actor: a thread block, a port channel that performs transfers, or a
// rank's caller. An actor's events are numbered from 1 on.
struct Event {
  std::int32_t actor = -1;  // -1: none
  std::int32_t number = 0;
  std::int32_t step = -1;  // operation of the block, for messages
  std::int32_t run = 0;
};

// A vector clock: up to which event of every actor something is certain to come later. Signals
// order everything; packets and relaxed signals show that their sender has come so far, but not
// that what it wrote before is visible. Both kinds are kept apart.
class Knowledge {
 public:
  explicit Knowledge(std::size_t actors = 0) : visible_(actors, 0), done_(actors, 0) {}

  void Learn(const Knowledge& other) {
    Raise(visible_, other.visible_);
    Raise(done_, other.done_);
  }
  void LearnOrder(const Knowledge& other) { Raise(done_, other.done_); }
  void LearnOrder(const Event& event) {
    done_[At(event.actor)] = std::max(done_[At(event.actor)], event.number);
  }
  void LearnEvent(std::int32_t actor, std::int32_t number) {
    visible_[At(actor)] = std::max(visible_[At(actor)], number);
    done_[At(actor)] = std::max(done_[At(actor)], number);
  }
  // Whether what that event wrote is visible.
  bool Sees(const Event& event) const { return visible_[At(event.actor)] >= event.number; }
  // Whether that event is over, as far as it reads.
  bool Follows(const Event& event) const { return done_[At(event.actor)] >= event.number; }

 private:
  static std::size_t At(std::int32_t i) { return static_cast<std::size_t>(i); }
  static void Raise(std::vector<std::int32_t>& to, const std::vector<std::int32_t>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
  }

  std::vector<std::int32_t> visible_;
  std::vector<std::int32_t> done_;
};

}  // namespace espalier::program
