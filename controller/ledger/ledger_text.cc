#include "controller/ledger/ledger_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>
#include <type_traits>

namespace espalier::controller {
namespace {

std::optional<std::size_t> FindScheme(std::string_view name) {
  for (std::size_t i = 0; i < kSchemes; ++i) {
    if (SchemeName(static_cast<Scheme>(i)) == name) return i;
  }
  return std::nullopt;
}

// Reads words one after the other, and remembers the first one that is wrong.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) {}

  bool IsEmpty() const { return rest_.empty(); }
  bool is_wrong() const { return wrong_.has_value(); }
  std::string_view wrong() const { return *wrong_; }

  std::string_view Next() {
    const std::string_view word = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(std::min(word.size() + 1, rest_.size()));
    return word;
  }
  void Refuse(std::string_view word) {
    if (!wrong_) wrong_ = word;
  }
  template <typename Number>
  Number Read() {
    const std::string_view word = Next();
    Number number{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    bool is_right = error == std::errc() && end == word.data() + word.size();
    if constexpr (std::is_floating_point_v<Number>) {
      is_right = is_right && std::isfinite(number) && number >= 0;
    }
    if (is_right) return number;
    Refuse(word);
    return {};
  }

 private:
  std::string_view rest_;
  std::optional<std::string_view> wrong_;
};

void ReadScheme(Words& words, BurstSums& sums) {
  const std::string_view name = words.Next();
  const auto scheme = FindScheme(name);
  if (!scheme) return words.Refuse(name);
  BurstSums::OfScheme& of = sums.schemes[*scheme];
  of.bursts = words.Read<std::uint64_t>();
  const auto draws = words.Read<std::size_t>();
  const bool is_repeated = draws == 1;
  if ((!is_repeated && draws != BurstCosts::kDraws) || of.bursts > sums.bursts) {
    return words.Refuse(name);
  }
  for (std::size_t i = 0; i < draws; ++i) of.seconds[i] = words.Read<double>();
  if (is_repeated) of.seconds.fill(of.seconds[0]);
}

}  // namespace

std::string FormatSums(const BurstSums& sums) {
  std::string text = fmt::format("{} {} {} {} {} {} {} {} {}", sums.bursts, sums.skipped,
                                 sums.flows, sums.crossing, sums.known, sums.proven, sums.gpus,
                                 sums.measured_seconds, sums.measured_squares);
  for (std::size_t i = 0; i < kSchemes; ++i) {
    const auto& [bursts, seconds] = sums.schemes[i];
    if (bursts == 0) continue;
    const bool are_equal = std::ranges::count(seconds, seconds[0]) == std::ssize(seconds);
    const std::size_t draws = are_equal ? 1 : seconds.size();
    text += fmt::format(" {} {} {}", SchemeName(static_cast<Scheme>(i)), bursts, draws);
    for (std::size_t draw = 0; draw < draws; ++draw) text += fmt::format(" {}", seconds[draw]);
  }
  return text;
}

Result<BurstSums> ParseSums(std::string_view text) {
  Words words(text);
  BurstSums sums;
  for (std::uint64_t* const count :
       {&sums.bursts, &sums.skipped, &sums.flows, &sums.crossing, &sums.known, &sums.proven}) {
    *count = words.Read<std::uint64_t>();
  }
  sums.gpus = words.Read<std::size_t>();
  sums.measured_seconds = words.Read<double>();
  sums.measured_squares = words.Read<double>();
  while (!words.IsEmpty() && !words.is_wrong()) ReadScheme(words, sums);
  if (!words.is_wrong()) return sums;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("sums of bursts: \"{}\" is wrong (the store is damaged, or of another "
                          "release)",
                          words.wrong()));
}

}  // namespace espalier::controller
