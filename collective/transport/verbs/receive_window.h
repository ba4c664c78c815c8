#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::transport {

// The receiving half of a VerbsConnection, as message numbers: which messages have arrived, which
// are released, and which releases the other end has been told.
//
// Problem: several queue pairs deliver messages out of order, and a device may deliver one twice.
// Idea: message k is written to slot k modulo the number of slots, and announces the low bits of k.
// Only messages released <= k < released + slots can be new, so the distance from `released` tells
// a new message from a repeated one; one bit per slot records arrivals. Invariant: a slot's bit is
// set exactly while its message has arrived and is not released. A repeated message is harmless
// unless its slot already holds a later one, which is an error. Cost: O(1) per message, one word of
// bits. Thread safety: one thread at a time.
class ReceiveWindow {
 public:
  // At most 64 slots.
  explicit ReceiveWindow(std::uint64_t slots) : slots_(slots) {}

  std::size_t SlotOf(std::uint64_t message) const { return message % slots_; }
  enum class Arrival : std::uint8_t {
    kExpected,
    kRepeated,     // it came again; its slot holds no later message, so nothing is lost
    kOverAnother,  // it came again and has overwritten a later message
    kTooEarly,     // its slot is not free
  };
  // Records the arrival of the message with these low bits of its number.
  Arrival Accept(std::uint32_t low_bits);
  // The number of the message that is released next, and whether it has arrived.
  std::uint64_t next() const { return released_; }
  bool HasNext() const { return Has(released_); }
  void Release();

  // The number of messages released so far.
  std::uint64_t released() const { return released_; }
  // A bit for each slot, the lowest for slot 0: a message has arrived and is not released.
  std::uint64_t arrived() const { return arrived_; }
  // Whether the other end must be told of releases, and no such notice is in flight.
  bool HasToTell() const { return told_ != released_ && !is_telling_; }
  void BeginTelling();
  // Ends a notice; after a failure the releases must be told again.
  void EndTelling(bool succeeded);

  // Whether a message was requested and none has come since.
  bool is_needed() const { return is_needed_; }
  void MarkNeeded() { is_needed_ = true; }

 private:
  std::uint64_t BitOf(std::uint64_t message) const { return std::uint64_t{1} << SlotOf(message); }
  bool Has(std::uint64_t message) const { return (arrived_ & BitOf(message)) != 0; }

  const std::uint64_t slots_;
  std::uint64_t released_ = 0;
  std::uint64_t arrived_ = 0;
  std::uint64_t told_ = 0;  // the value of released_ that the other end was told last
  bool is_telling_ = false;
  bool is_needed_ = false;
};

}  // namespace espalier::transport
