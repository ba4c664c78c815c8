#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace espalier::transport {

// The sending half of a VerbsConnection, as numbers: which messages wait, which are on their way,
// and when a slot may be written again.
//
// Problem: several queue pairs carry the messages, any of them may die, and what a network has
// delayed must not arrive in the place of a later message. Idea: messages are numbered from 0 on,
// message k has slot k modulo the slots; its slot is free once the message is known to have arrived
// and the other end has released it. What was on a queue pair that closed is uncertain until the
// other end has closed its own end and says what has arrived; the rest is sent again, before all
// that waits. Invariant: messages freed <= committed <= freed + slots.
// Thread safety: one thread at a time.
class SendWindow {
 public:
  // At most 64 slots.
  explicit SendWindow(std::uint64_t slots) : slots_(slots), sent_(slots, true) {}

  std::size_t SlotOf(std::uint64_t message) const { return message % slots_; }
  // Whether the next message has a free slot.
  bool HasRoom() const { return committed_ - freed_ < slots_ && sent_[SlotOf(committed_)]; }
  // The number of the next message to be committed.
  std::uint64_t next() const { return committed_; }
  // The next message is to be sent, after all that wait.
  void Commit();
  // Committed, and on no queue pair: the next to be sent is first.
  std::deque<std::uint64_t>& waiting() { return waiting_; }
  // A message has arrived for sure.
  void MarkArrived(std::uint64_t message);
  // The other end has released so many messages, of all. False where there are not so many.
  bool MarkReleased(std::uint64_t released);
  // What has become of messages that were on a queue pair when it closed: the other end has
  // released so many messages, and `arrived` has a bit for each slot whose message it has and has
  // not released.
  void Settle(std::vector<std::uint64_t> uncertain, std::uint64_t released, std::uint64_t arrived);
  // Whether all that was committed has arrived.
  bool IsFlushed() const;

  // Whether a slot has been asked for in vain, since one came free.
  bool is_needed() const { return is_needed_; }
  void MarkNeeded() { is_needed_ = true; }

 private:
  const std::uint64_t slots_;
  std::uint64_t committed_ = 0;
  std::uint64_t freed_ = 0;
  std::vector<bool> sent_;  // by slot: its last message has arrived for sure
  std::deque<std::uint64_t> waiting_;
  bool is_needed_ = false;
};

}  // namespace espalier::transport
