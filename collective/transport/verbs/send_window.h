#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace espalier::transport {

// The sending half of a VerbsConnection, as message numbers: which messages wait, which are in
// flight, and when a slot may be written again.
//
// Problem: several queue pairs carry the messages, any of them may die, and a message that the
// network has delayed must not overwrite a later one. Idea: messages are numbered from 0, and
// message k uses slot k modulo the number of slots. Its slot is free when the message is known to
// have arrived and the other end has released it. Messages in flight on a queue pair that closed
// are uncertain until the other end has closed its end and tells what has arrived; the missing ones
// are sent again, before all that wait. Invariant: freed <= committed <= freed + slots. Cost: O(1)
// per message; sorting the uncertain messages of a closed queue pair.
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
  // Commits the next message, to be sent after all that wait.
  void Commit();
  // The committed messages that are on no queue pair; the first is sent next.
  std::deque<std::uint64_t>& waiting() { return waiting_; }
  // Records that a message has certainly arrived.
  void MarkArrived(std::uint64_t message);
  // Records that the other end has released `released` messages in all. Returns false if that many
  // have not been committed.
  bool MarkReleased(std::uint64_t released);
  // Settles the messages that were in flight on a queue pair when it closed. The other end has
  // released `released` messages, and `arrived` has a bit for each slot whose message has arrived
  // there and is not released.
  void Settle(std::vector<std::uint64_t> uncertain, std::uint64_t released, std::uint64_t arrived);
  // Whether all committed messages have arrived.
  bool IsFlushed() const;

  // Whether a slot was requested and none has become free since.
  bool is_needed() const { return is_needed_; }
  void MarkNeeded() { is_needed_ = true; }

 private:
  const std::uint64_t slots_;
  std::uint64_t committed_ = 0;
  std::uint64_t freed_ = 0;
  std::vector<bool> sent_;  // by slot: its last message has certainly arrived
  std::deque<std::uint64_t> waiting_;
  bool is_needed_ = false;
};

}  // namespace espalier::transport
