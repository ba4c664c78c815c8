#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"

namespace espalier::wire {

// Where a value stands in a message; turned into text ("path_push.sets[2].paths[0].weight") only
// for an error. Lives on the stack, next to the parents that it refers to.
class Field {
 public:
  constexpr Field(const char* name) : name_(name) {}  // NOLINT(google-explicit-constructor)
  constexpr Field(const char* name, std::size_t index) : name_(name), index_(index) {}
  constexpr Field(const Field& parent, const char* name) : parent_(&parent), name_(name) {}
  constexpr Field(const Field& parent, const char* name, std::size_t index)
      : parent_(&parent), name_(name), index_(index) {}

  // The same field's i-th entry.
  constexpr Field At(std::size_t index) const {
    Field entry = *this;
    entry.index_ = index;
    return entry;
  }
  std::string ToString() const;

 private:
  const Field* parent_ = nullptr;
  std::string_view name_;
  std::optional<std::size_t> index_;
};

// The checks that bytes from a peer must pass. Every check is a call; the first that fails is
// kept and later ones do nothing, so that validating a message is a list of its rules with one
// look at ok() before its values are used.
//
// Thread safety: one thread. Kept between messages for its scratch memory.
class Rules {
 public:
  enum class Presence { kRequired, kOptional };

  void Reset() { error_.reset(); }
  bool ok() const { return !error_.has_value(); }
  // ok() must not hold.
  const Error& error() const { return *error_; }

  void Fail(const Field& field, std::string_view what);

  // min <= value <= max.
  void InRange(const Field& field, std::uint64_t value, std::uint64_t min, std::uint64_t max);
  void InRange(const Field& field, std::span<const std::uint32_t> column, std::uint32_t min,
               std::uint32_t max);
  void InRange(const Field& field, std::span<const std::uint64_t> column, std::uint64_t min,
               std::uint64_t max);
  // A column with as many entries as the first one of its group.
  void SameLength(const Field& field, int length, const Field& first, int first_length);
  void AtMost(const Field& field, int count, std::size_t limit);
  // Every entry is a position in a table of table_size entries.
  void Indexes(const Field& field, std::span<const std::uint32_t> column, std::string_view table,
               int table_size);
  // No value twice. Linear where the ids ascend, as they do from our own senders.
  void Unique(const Field& field, std::span<const std::uint64_t> ids);
  // No value twice in one, nor in both.
  void Unique(const Field& field, std::span<const std::uint64_t> ids, const Field& other_field,
              std::span<const std::uint64_t> others);

  // No value more than `limit` times.
  void AtMostEach(const Field& field, std::span<const std::uint64_t> ids, std::size_t limit);

  void Name(const Field& field, std::string_view name, Presence presence);
  void Text(const Field& field, std::string_view text);
  // 4 or 16 bytes in network order, of an address that is not "::". None where it is refused.
  IpAddress Address(const Field& field, std::string_view bytes);

 private:
  void Printable(const Field& field, std::string_view text, std::size_t max_bytes);

  std::optional<Error> error_;
  std::vector<std::uint64_t> scratch_;
};

}  // namespace espalier::wire
