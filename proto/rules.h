#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"

namespace espalier::wire {

// The position of a value in a message. It becomes text ("path_push.sets[2].paths[0].weight") only
// for an error. Its parents, to which it refers, must outlive it.
class Field {
 public:
  constexpr Field(const char* name) : name_(name) {}  // NOLINT(google-explicit-constructor)
  constexpr Field(const char* name, std::size_t index) : name_(name), index_(index) {}
  constexpr Field(const Field& parent, const char* name) : parent_(&parent), name_(name) {}
  constexpr Field(const Field& parent, const char* name, std::size_t index)
      : parent_(&parent), name_(name), index_(index) {}

  // Returns the field's entry with this index.
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

// Checks that bytes from a peer must pass. Each check is a call. The first failure is kept, and
// later checks do nothing. So validating a message is a list of its rules, with one test of ok()
// before its values are used.
//
// Thread safety: one thread. Kept between messages for its scratch memory.
class Rules {
 public:
  enum class Presence { kRequired, kOptional };

  void Reset() { error_.reset(); }
  bool ok() const { return !error_.has_value(); }
  // Requires !ok().
  const Error& error() const { return *error_; }

  void Fail(const Field& field, std::string_view what);

  // Requires min <= value <= max.
  void InRange(const Field& field, std::uint64_t value, std::uint64_t min, std::uint64_t max);
  void InRange(const Field& field, std::span<const std::uint32_t> column, std::uint32_t min,
               std::uint32_t max);
  void InRange(const Field& field, std::span<const std::uint64_t> column, std::uint64_t min,
               std::uint64_t max);
  // The column must have as many entries as the first one of its group.
  void SameLength(const Field& field, int length, const Field& first, int first_length);
  void AtMost(const Field& field, int count, std::size_t limit);
  // Every entry must be an index into a table of table_size entries.
  void Indexes(const Field& field, std::span<const std::uint32_t> column, std::string_view table,
               int table_size);
  // No id may occur twice. Linear if the ids ascend, as those of Espalier's own senders do.
  void Unique(const Field& field, std::span<const std::uint64_t> ids);
  // No id may occur twice in one list, nor in both.
  void Unique(const Field& field, std::span<const std::uint64_t> ids, const Field& other_field,
              std::span<const std::uint64_t> others);

  // No id may occur more than `limit` times.
  void AtMostEach(const Field& field, std::span<const std::uint64_t> ids, std::size_t limit);

  void Name(const Field& field, std::string_view name, Presence presence);
  void Text(const Field& field, std::string_view text);
  // Reads an address of 4 or 16 bytes in network order, which must not be "::". Returns none after
  // a failure.
  IpAddress Address(const Field& field, std::string_view bytes);

 private:
  void Printable(const Field& field, std::string_view text, std::size_t max_bytes);

  std::optional<Error> error_;
  std::vector<std::uint64_t> scratch_;
};

}  // namespace espalier::wire
