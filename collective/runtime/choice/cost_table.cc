#include "collective/runtime/choice/cost_table.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/base/check.h"

namespace espalier::runtime {
namespace {

constexpr std::string_view kTitle = "espalier-costs 1";
constexpr std::string_view kFailed = "failed ";
constexpr std::size_t kMaxEntries = 1000;

// Measured on the machine of docs/benchmarks.md; the TCP costs are those of two ranks with a core
// each.
constexpr std::array kUsual = {
    MeasuredCosts{Medium::kShared, 2, {7.5e-7, 0, 1.4e-10, 3.5e-11, 2}},
    MeasuredCosts{Medium::kShared, 4, {6.5e-6, 0, 1.2e-10, 2.7e-11, 2}},
    MeasuredCosts{Medium::kShared, 8, {3.3e-5, 0, 1.8e-10, 2.8e-11, 2}},
    MeasuredCosts{Medium::kTcp, 2, {2.6e-6, 2.5e-6, 1.6e-10, 3.8e-11, 0}},
    MeasuredCosts{Medium::kVerbs, 2, {4e-6, 1e-6, 1e-10, 1e-10, 0}},
};

std::string FormatEntry(const MeasuredCosts& entry) {
  return fmt::format("{} {} {} {} {} {} {}", MediumName(entry.medium), entry.ranks,
                     entry.costs.lanes, entry.costs.round, entry.costs.message, entry.costs.byte,
                     entry.costs.reduced_byte);
}

// Parses a non-negative finite number, independent of the locale.
bool ReadNumber(const std::string& word, double& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && std::isfinite(number) &&
         number >= 0;
}

Result<MeasuredCosts> ParseEntry(const std::string& line) {
  std::istringstream words(line);
  std::string medium;
  std::array<std::string, 6> numbers;
  std::string more;
  words >> medium;
  for (std::string& number : numbers) words >> number;
  const auto found = FindMedium(medium);
  std::array<double, 6> values = {};
  bool is_whole = found && !words.fail() && !(words >> more);
  for (std::size_t i = 0; i < values.size(); ++i) {
    is_whole = is_whole && ReadNumber(numbers[i], values[i]);
  }
  constexpr double kMaxRanks = 1e6;
  is_whole = is_whole && values[0] >= 1 && values[0] <= kMaxRanks && values[1] <= kMaxRanks;
  if (!is_whole) {
    return Fail(ErrorCode::kInvalidArgument,
                "not \"MEDIUM RANKS LANES ROUND MESSAGE BYTE REDUCED\" (seconds, none below 0)");
  }
  return MeasuredCosts{.medium = *found,
                       .ranks = static_cast<int>(values[0]),
                       .costs = {.round = values[2],
                                 .message = values[3],
                                 .byte = values[4],
                                 .reduced_byte = values[5],
                                 .lanes = static_cast<int>(values[1])}};
}

double Ratio(int a, int b) { return a > b ? 1.0 * a / b : 1.0 * b / a; }

template <typename Table>
const MeasuredCosts* FindNearest(const Table& table, Medium medium, int ranks) {
  const MeasuredCosts* nearest = nullptr;
  for (const MeasuredCosts& entry : table) {
    if (entry.medium != medium) continue;
    if (nearest == nullptr || Ratio(entry.ranks, ranks) < Ratio(nearest->ranks, ranks)) {
      nearest = &entry;
    }
  }
  return nearest;
}

Result<Costs> ReadCosts(const std::string& file, Medium medium, int ranks) {
  if (file.empty()) return FindCosts({}, medium, ranks);
  auto table = ReadCostsFile(file);
  if (!table) return Propagate(table);
  return FindCosts(*table, medium, ranks);
}

}  // namespace

std::string FormatCosts(const std::vector<MeasuredCosts>& table) {
  std::string text = fmt::format("{}\n", kTitle);
  for (const MeasuredCosts& entry : table) text += FormatEntry(entry) + "\n";
  return text;
}

Result<std::vector<MeasuredCosts>> ParseCosts(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string line;
  if (!std::getline(lines, line) || line != kTitle) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("1: not \"{}\" (`espalier bench fit` writes such files)", kTitle));
  }
  std::vector<MeasuredCosts> table;
  for (int number = 2; std::getline(lines, line); ++number) {
    if (line.empty() || line.front() == '#') continue;
    auto entry = ParseEntry(line);
    if (entry && table.size() >= kMaxEntries) {
      entry = Fail(ErrorCode::kInvalidArgument, "too many entries (at most 1,000)");
    }
    if (!entry)
      return Fail(entry.error().code, fmt::format("{}: {}", number, entry.error().message));
    table.push_back(*entry);
  }
  return table;
}

Result<std::vector<MeasuredCosts>> ReadCostsFile(const std::string& file) {
  std::ifstream input(file);
  std::ostringstream text;
  text << input.rdbuf();
  if (!input) return Fail(ErrorCode::kNotFound, fmt::format("{}: cannot be read", file));
  auto table = ParseCosts(text.str());
  if (!table) return Fail(table.error().code, fmt::format("{}:{}", file, table.error().message));
  return table;
}

Costs FindCosts(const std::vector<MeasuredCosts>& table, Medium medium, int ranks) {
  const MeasuredCosts* found = FindNearest(table, medium, ranks);
  if (found != nullptr) return found->costs;
  const MeasuredCosts* usual = FindNearest(kUsual, medium, ranks);
  ESPALIER_CHECK(usual != nullptr, "medium={}", MediumName(medium));
  return usual->costs;
}

Result<Costs> AgreeOnCosts(transport::RendezvousStore& store, const std::string& group, int rank,
                           int size, Medium medium, const std::string& file,
                           transport::Deadline deadline) {
  const std::string key = group + "/costs";
  if (rank == 0) {
    auto costs = ReadCosts(file, medium, size);
    const std::string text =
        costs ? FormatEntry({medium, size, *costs}) : std::string(kFailed) + costs.error().message;
    auto told = store.Set(key, text, deadline);
    if (!told) return Propagate(told);
    return costs;
  }
  auto text = store.Get(key, deadline);
  if (!text) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("rank 0 did not join in time: {}", text.error().message));
  }
  if (text->starts_with(kFailed)) {
    return Fail(ErrorCode::kInvalidArgument, "rank 0: " + text->substr(kFailed.size()));
  }
  auto entry = ParseEntry(*text);
  if (!entry) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("cannot read the costs \"{}\" from rank 0 (another version?)", *text));
  }
  return entry->costs;
}

}  // namespace espalier::runtime
