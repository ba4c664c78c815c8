#include "controller/offline/comparators/ilp.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "controller/routing/bounds/load_bounds.h"

namespace espalier::offline {
namespace {

using controller::Assignment;
using controller::CandidatePaths;
using controller::Commodity;
using controller::ComputeLoads;
using controller::ComputeLowerBound;
using controller::ComputeMaxLoad;
using controller::FabricView;

// Terms on a line, as solvers limit the length of lines.
constexpr int kTermsALine = 8;

void AppendTerms(const std::vector<std::pair<std::string, std::string>>& terms, std::string& text) {
  int count = 0;
  for (const auto& [factor, variable] : terms) {
    fmt::format_to(std::back_inserter(text), " + {} {}", factor, variable);
    if (++count % kTermsALine == 0) text += '\n';
  }
}

std::string VariableName(std::size_t group, std::size_t path) {
  return fmt::format("x{}_{}", group, path);
}

// Parses a variable such as "x12_3" into (12, 3).
std::optional<std::pair<std::size_t, std::size_t>> ParseVariable(std::string_view name) {
  if (!name.starts_with('x')) return std::nullopt;
  std::size_t group = 0;
  std::size_t path = 0;
  const char* end = name.data() + name.size();
  auto parsed = std::from_chars(name.data() + 1, end, group);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '_') return std::nullopt;
  parsed = std::from_chars(parsed.ptr + 1, end, path);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return std::pair(group, path);
}

std::vector<std::string_view> SplitWords(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t begin = line.find_first_not_of(' ');
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(' ', end);
  }
  return words;
}

}  // namespace

IlpProgram::IlpProgram(FabricView& view, std::span<const Commodity> commodities)
    : view_(view), commodities_(commodities.begin(), commodities.end()) {
  unassigned_.Clear(commodities_);
  FindGroups();
  if (!groups_.empty()) WriteText();
}

void IlpProgram::FindGroups() {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::size_t> numbers;
  for (std::uint32_t i = 0; i < commodities_.size(); ++i) {
    const Commodity& commodity = commodities_[i];
    if (commodity.source == commodity.destination) continue;
    const auto [entry, is_new] = numbers.try_emplace(
        std::tuple(commodity.source, commodity.destination, commodity.subflows), groups_.size());
    if (is_new) {
      Group group{.subflows = commodity.subflows};
      const CandidatePaths& all = view_.Candidates(commodity.source, commodity.destination);
      for (std::size_t path = 0; path < all.size(); ++path) {
        if (view_.IsUsable(all.Hops(path))) group.paths.push_back(static_cast<std::int32_t>(path));
      }
      groups_.push_back(std::move(group));
    }
    groups_[entry->second].commodities.push_back(i);
  }
  std::erase_if(groups_, [](const Group& group) { return group.paths.empty(); });
}

void IlpProgram::WriteText() {
  // By link: the variables that load it.
  std::map<std::uint32_t, std::vector<std::pair<std::string, std::string>>> links;
  text_ = "Minimize\n obj: t\nSubject To\n";
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    const Commodity& first = commodities_[group.commodities.front()];
    std::vector<std::pair<std::string, std::string>> terms;
    for (std::size_t p = 0; p < group.paths.size(); ++p) {
      terms.emplace_back("1", VariableName(g, p));
      std::vector<std::uint32_t> hops;
      view_.AppendHops(first.source, first.destination, group.paths[p], hops);
      for (const std::uint32_t link : hops) {
        links[link].emplace_back(fmt::format("{:.12g}", 1.0 / group.subflows), VariableName(g, p));
      }
    }
    fmt::format_to(std::back_inserter(text_), " g{}:", g);
    AppendTerms(terms, text_);
    fmt::format_to(std::back_inserter(text_), " = {}\n", group.commodities.size() * group.subflows);
  }
  for (const auto& [link, terms] : links) {
    const double capacity =
        static_cast<double>(view_.capacities()[link]) / static_cast<double>(view_.unit_bps());
    fmt::format_to(std::back_inserter(text_), " l{}:", link);
    AppendTerms(terms, text_);
    fmt::format_to(std::back_inserter(text_), " - {:.12g} t <= 0\n", capacity);
  }
  const double bound = ComputeLowerBound(view_, commodities_).Value();
  // Slightly less than the bound, because it is rounded.
  fmt::format_to(std::back_inserter(text_), "Bounds\n t >= {:.12g}\nGeneral\n", bound * (1 - 1e-9));
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t p = 0; p < groups_[g].paths.size(); ++p) text_ += ' ' + VariableName(g, p);
    text_ += '\n';
  }
  text_ += "End\n";
}

Result<Assignment> IlpProgram::ReadSolution(std::string_view solution) const {
  // By group: the paths of its subflows, one entry for each.
  std::vector<std::vector<std::int32_t>> taken(groups_.size());
  for (std::size_t begin = 0; begin < solution.size();) {
    const std::size_t end = std::min(solution.find('\n', begin), solution.size());
    // NUMBER NAME VALUE COST, preceded by ** if a bound is violated.
    const auto words = SplitWords(solution.substr(begin, end - begin));
    begin = end + 1;
    if (words.size() < 4) continue;
    const auto variable = ParseVariable(words[words.size() - 3]);
    if (!variable) continue;
    const auto [group, path] = *variable;
    double value = 0;
    const std::string_view number = words[words.size() - 2];
    std::from_chars(number.data(), number.data() + number.size(), value);
    if (group >= groups_.size() || path >= groups_[group].paths.size() || value < -0.5 ||
        value > 1e6) {
      return Fail(ErrorCode::kInternal, "the solver's solution does not match the program");
    }
    taken[group].insert(taken[group].end(), static_cast<std::size_t>(std::lround(value)),
                        groups_[group].paths[path]);
  }

  Assignment assignment = unassigned_;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    if (taken[g].size() != group.commodities.size() * group.subflows) {
      return Fail(ErrorCode::kInternal, "the solver found no solution within its time limit");
    }
    // The subflows of one commodity are far apart in the list, so that they take different paths.
    const std::size_t count = group.commodities.size();
    for (std::size_t i = 0; i < taken[g].size(); ++i) {
      const std::uint32_t commodity = group.commodities[i % count];
      assignment.paths[assignment.first[commodity] + i / count] = taken[g][i];
    }
  }
  assignment.max_load = ComputeMaxLoad(view_, ComputeLoads(view_, commodities_, assignment));
  assignment.lower_bound = ComputeLowerBound(view_, commodities_);
  return assignment;
}

}  // namespace espalier::offline
