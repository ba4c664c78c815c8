#pragma once

#include <cstddef>
#include <cstdint>

namespace espalier::transport {

// The receiving half of a VerbsConnection, as numbers: which messages have arrived, in whatever
// order, which are released, and what the other end has been told of that. Messages are numbered
// from 0 on; message k is in slot k modulo the slots.
// Thread safety: one thread at a time.
class ReceiveWindow {
 public:
  // At most 64 slots.
  explicit ReceiveWindow(std::uint64_t slots) : slots_(slots) {}

  std::size_t SlotOf(std::uint64_t message) const { return message % slots_; }
  enum class Arrival : std::uint8_t {
    kExpected,
    kRepeated,     // its slot has no later message: nothing is lost
    kOverAnother,  // it was released, and its slot has a later message
    kTooEarly,     // its slot is not free
  };
  // A message has arrived, by the low bits of its number.
  Arrival Accept(std::uint32_t low_bits);
  // The message that is to be released next, and whether it is there.
  std::uint64_t next() const { return released_; }
  bool HasNext() const { return Has(released_); }
  void Release();

  // Of all messages.
  std::uint64_t released() const { return released_; }
  // By slot, from the lowest bit on: there is a message that is not released.
  std::uint64_t arrived() const { return arrived_; }
  // Whether there are releases that the other end has not been told, and no telling is on its way.
  bool HasToTell() const { return told_ != released_ && !is_telling_; }
  void BeginTelling();
  // What was not told is to be told again.
  void EndTelling(bool succeeded);

  // Whether a message has been asked for in vain, since one came.
  bool is_needed() const { return is_needed_; }
  void MarkNeeded() { is_needed_ = true; }

 private:
  std::uint64_t BitOf(std::uint64_t message) const { return std::uint64_t{1} << SlotOf(message); }
  bool Has(std::uint64_t message) const { return (arrived_ & BitOf(message)) != 0; }

  const std::uint64_t slots_;
  std::uint64_t released_ = 0;
  std::uint64_t arrived_ = 0;
  std::uint64_t told_ = 0;  // the last released_ that the other end was told
  bool is_telling_ = false;
  bool is_needed_ = false;
};

}  // namespace espalier::transport
