#include "proto/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "proto/limits.h"
#include "proto/text.h"

namespace espalier::wire {
namespace {

// Returns the index of the first entry outside the range. None if all are inside, which is found
// without a branch for each entry.
template <typename T>
std::optional<std::size_t> FindOutside(std::span<const T> column, T min, T max) {
  bool inside = true;
  for (const T value : column) inside &= value >= min && value <= max;
  if (inside) return std::nullopt;
  const auto outside = std::find_if(column.begin(), column.end(),
                                    [&](T value) { return value < min || value > max; });
  return static_cast<std::size_t>(outside - column.begin());
}

bool Ascends(std::span<const std::uint64_t> ids) {
  return std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
}

}  // namespace

std::string Field::ToString() const {
  std::string text = parent_ == nullptr ? std::string() : parent_->ToString() + ".";
  text += name_;
  if (index_.has_value()) text += fmt::format("[{}]", *index_);
  return text;
}

void Rules::Fail(const Field& field, std::string_view what) {
  if (!ok()) return;
  error_ = Error{ErrorCode::kInvalidArgument, fmt::format("{}: {}", field.ToString(), what)};
}

void Rules::InRange(const Field& field, std::uint64_t value, std::uint64_t min, std::uint64_t max) {
  if (value >= min && value <= max) return;
  Fail(field, fmt::format("{} is not in {}..{}", value, min, max));
}

void Rules::InRange(const Field& field, std::span<const std::uint32_t> column, std::uint32_t min,
                    std::uint32_t max) {
  if (const auto i = FindOutside(column, min, max)) InRange(field.At(*i), column[*i], min, max);
}

void Rules::InRange(const Field& field, std::span<const std::uint64_t> column, std::uint64_t min,
                    std::uint64_t max) {
  if (const auto i = FindOutside(column, min, max)) InRange(field.At(*i), column[*i], min, max);
}

void Rules::SameLength(const Field& field, int length, const Field& first, int first_length) {
  if (length == first_length) return;
  Fail(field, fmt::format("{} entries, but {} has {}", length, first.ToString(), first_length));
}

void Rules::AtMost(const Field& field, int count, std::size_t limit) {
  if (static_cast<std::size_t>(count) <= limit) return;
  Fail(field, fmt::format("{} entries exceed the limit of {}", count, limit));
}

void Rules::Indexes(const Field& field, std::span<const std::uint32_t> column,
                    std::string_view table, int table_size) {
  const auto size = static_cast<std::uint32_t>(table_size);
  if (column.empty()) return;
  const auto beyond = std::find_if(column.begin(), column.end(),
                                   [&](std::uint32_t index) { return index >= size; });
  if (beyond == column.end()) return;
  Fail(field.At(static_cast<std::size_t>(beyond - column.begin())),
       fmt::format("index {} beyond {} {}", *beyond, size, table));
}

void Rules::Unique(const Field& field, std::span<const std::uint64_t> ids) {
  if (Ascends(ids)) return;
  scratch_.assign(ids.begin(), ids.end());
  std::sort(scratch_.begin(), scratch_.end());
  const auto twice = std::adjacent_find(scratch_.begin(), scratch_.end());
  if (twice != scratch_.end()) Fail(field, fmt::format("{} occurs twice", *twice));
}

void Rules::Unique(const Field& field, std::span<const std::uint64_t> ids, const Field& other_field,
                   std::span<const std::uint64_t> others) {
  Unique(field, ids);
  Unique(other_field, others);
  if (ids.empty() || others.empty() || !ok()) return;
  scratch_.assign(ids.begin(), ids.end());
  scratch_.insert(scratch_.end(), others.begin(), others.end());
  std::sort(scratch_.begin(), scratch_.end());
  const auto twice = std::adjacent_find(scratch_.begin(), scratch_.end());
  if (twice == scratch_.end()) return;
  Fail(other_field, fmt::format("{} is also in {}", *twice, field.ToString()));
}

void Rules::AtMostEach(const Field& field, std::span<const std::uint64_t> ids, std::size_t limit) {
  if (ids.size() <= limit || Ascends(ids)) return;
  scratch_.assign(ids.begin(), ids.end());
  std::sort(scratch_.begin(), scratch_.end());
  for (std::size_t last = limit; last < scratch_.size(); ++last) {
    if (scratch_[last] != scratch_[last - limit]) continue;
    return Fail(field, fmt::format("{} occurs more than {} times", scratch_[last], limit));
  }
}

void Rules::Name(const Field& field, std::string_view name, Presence presence) {
  if (name.empty() && presence == Presence::kRequired) Fail(field, "is missing");
  Printable(field, name, kMaxNameBytes);
}

void Rules::Text(const Field& field, std::string_view text) {
  Printable(field, text, kMaxTextBytes);
}

void Rules::Printable(const Field& field, std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes) {
    Fail(field, fmt::format("{} bytes exceed the limit of {}", text.size(), max_bytes));
  } else if (!IsPrintable(text)) {
    Fail(field, fmt::format("\"{}\" has characters that are not printable",
                            MakePrintable(text, kMaxNameBytes)));
  }
}

IpAddress Rules::Address(const Field& field, std::string_view bytes) {
  IpAddress address;
  if (bytes.size() == sizeof(std::uint32_t)) {
    std::uint32_t v4 = 0;
    for (const char c : bytes) v4 = (v4 << 8U) | static_cast<unsigned char>(c);
    address = IpAddress::FromV4(v4);
  } else if (bytes.size() == IpAddress::Bytes{}.size()) {
    IpAddress::Bytes v6{};
    std::copy(bytes.begin(), bytes.end(), v6.begin());
    address = IpAddress(v6);
  } else {
    Fail(field, fmt::format("{} bytes are no address (it has 4 or 16)", bytes.size()));
    return address;
  }
  if (address.IsNone()) Fail(field, "must not be the unspecified address");
  return address;
}

}  // namespace espalier::wire
