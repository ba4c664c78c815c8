#include "collective/synthesis/construction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <utility>

#include "collective/synthesis/expansions.h"
#include "collective/synthesis/graphs/distance_regular.h"
#include "collective/synthesis/schedules/bfb.h"

namespace espalier::synthesis {
namespace {

using forest::Rational;

constexpr std::size_t kMany = 32;  // parts or numbers of one form
constexpr int kMaxDepth = 12;

// What the text of a form holds.
struct FormText {
  std::string_view name;
  std::string_view parameters;
  std::size_t parts = 0;  // kMany: two or more
  std::size_t least_numbers = 0;
  std::size_t most_numbers = 0;
};

// In the order of Form.
constexpr std::array<FormText, 18> kForms{{
    {"Complete", "nodes", 0, 1, 1},
    {"Bipartite", "degree", 0, 1, 1},
    {"BiRing", "degree, nodes", 0, 2, 2},
    {"UniRing", "degree, nodes", 0, 2, 2},
    {"Circulant", "nodes, offset, ...", 0, 1, kMany},
    {"DirectedCirculant", "degree", 0, 1, 1},
    {"GenKautz", "degree, nodes", 0, 2, 2},
    {"DeBruijn", "degree, length", 0, 2, 2},
    {"Kautz", "degree, length", 0, 2, 2},
    {"Hamming", "dimension, size", 0, 2, 2},
    {"Torus", "size, ...", 0, 1, kMany},
    {"DistanceRegular", "nodes", 0, 1, 1},
    {"Line", "base, times", 1, 0, 1},
    {"Degree", "base, copies", 1, 1, 1},
    {"Power", "base, exponent", 1, 1, 1},
    {"Product", "base, base, ...", kMany, 0, 0},
    {"Bidirectional", "base", 1, 0, 0},
    {"Bfb", "base", 1, 0, 0},
}};

const FormText& TextOf(const Construction& construction) {
  return kForms[static_cast<std::size_t>(construction.form)];
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Construction> Parse() {
    auto construction = ParseOne(0);
    if (construction && at_ != text_.size()) return Wrong("text after the end");
    return construction;
  }

 private:
  Result<Construction> ParseOne(int depth) {
    if (depth > kMaxDepth) return Wrong("too many levels");
    const std::size_t begin = Skip();
    while (at_ < text_.size() && IsLetter(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    const auto form = std::ranges::find(kForms, name, &FormText::name);
    if (form == kForms.end()) return Wrong(fmt::format("unknown name \"{}\"", name));
    Construction construction{static_cast<Form>(form - kForms.begin()), {}, {}};
    if (!Accept('(')) return Wrong("expected (");
    while (true) {
      const std::size_t next = Skip();
      if (next < text_.size() && IsLetter(text_[next])) {
        if (!construction.numbers.empty()) return Wrong("expected a number");
        auto part = ParseOne(depth + 1);
        if (!part) return part;
        construction.parts.push_back(std::move(*part));
      } else if (auto number = Number(); number) {
        construction.numbers.push_back(*number);
      } else {
        return Wrong("expected a number");
      }
      if (construction.parts.size() > kMany || construction.numbers.size() > kMany) {
        return Wrong("too many parameters");
      }
      if (Accept(')')) break;
      if (!Accept(',')) return Wrong("expected , or )");
    }
    const std::size_t parts = construction.parts.size();
    const std::size_t numbers = construction.numbers.size();
    if ((form->parts == kMany ? parts < 2 : parts != form->parts) ||
        numbers < form->least_numbers || numbers > form->most_numbers) {
      return Wrong(fmt::format("{} needs ({})", form->name, form->parameters));
    }
    return construction;
  }

  static bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

  std::size_t Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_;
  }

  bool Accept(char c) {
    if (Skip() == text_.size() || text_[at_] != c) return false;
    ++at_;
    Skip();
    return true;
  }

  std::optional<std::int64_t> Number() {
    std::int32_t number = 0;
    const char* const end = text_.data() + text_.size();
    const auto [after, error] = std::from_chars(text_.data() + Skip(), end, number);
    if (error != std::errc() || number < 0) return std::nullopt;
    at_ = static_cast<std::size_t>(after - text_.data());
    return number;
  }

  tl::unexpected<Error> Wrong(std::string_view what) const {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("construction, character {}: {} (write it as in \"Line(Circulant(16, 3, "
                    "4), 3)\")",
                    at_ + 1, what));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::int64_t Times(const Construction& line) {
  return line.numbers.empty() ? 1 : line.numbers.front();
}

Result<std::vector<std::int64_t>> Offsets(const Construction& circulant) {
  if (circulant.numbers.size() == 1) return BestTwoOffsets(circulant.numbers.front());
  return std::vector<std::int64_t>(circulant.numbers.begin() + 1, circulant.numbers.end());
}

Result<Network> BuildFamily(const Construction& of) {
  const std::vector<std::int64_t>& n = of.numbers;
  switch (of.form) {
    case Form::kComplete:
      return BuildComplete(n[0]);
    case Form::kBipartite:
      return BuildCompleteBipartite(n[0]);
    case Form::kBiRing:
      return BuildBidirectionalRing(n[0], n[1]);
    case Form::kUniRing:
      return BuildUnidirectionalRing(n[0], n[1]);
    case Form::kDirectedCirculant:
      return BuildDirectedCirculant(n[0]);
    case Form::kGeneralizedKautz:
      return BuildGeneralizedKautz(n[0], n[1]);
    case Form::kDeBruijn:
      return BuildDeBruijn(n[0], n[1]);
    case Form::kHamming:
      return BuildHamming(n[0], n[1]);
    case Form::kTorus:
      return BuildTorusNetwork(n);
    case Form::kDistanceRegular:
      return BuildDistanceRegular(n[0]);
    default:
      break;
  }
  auto offsets = Offsets(of);
  if (!offsets) return Propagate(offsets);
  return BuildCirculant(n[0], *offsets);
}

Result<void> CheckTimes(std::int64_t times) {
  if (times >= 0 && times <= 14) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("a line graph {} times is out of range (give at most 14)", times));
}

// Kautz graphs are line graphs of complete graphs.
Construction AsLine(const Construction& kautz) {
  return {Form::kLine, {{Form::kComplete, {}, {kautz.numbers[0] + 1}}}, {kautz.numbers[1]}};
}

bool UsesBfb(Form form) {
  return form < Form::kLine || form == Form::kProduct || form == Form::kBfb;
}

// A network with an allgather on it.
struct Algorithm {
  Network network;
  Schedule allgather;
};

// Applies one step of an expansion.
Result<Algorithm> ExpandOnce(Form form, std::int64_t n, const Algorithm& base) {
  const Digraph& graph = base.network.graph;
  const auto build = [&]() -> Result<Network> {
    if (form == Form::kLine) return BuildLineGraph(base.network);
    if (form == Form::kDegree) return BuildDegreeExpansion(base.network, n);
    if (form == Form::kPower) return BuildPower(base.network, n);
    return BuildBidirectional(base.network);
  };
  const auto expand = [&]() -> Result<Schedule> {
    if (form == Form::kLine) return ExpandToLineGraph(graph, base.allgather);
    if (form == Form::kDegree) return ExpandDegree(graph, base.allgather, n);
    if (form == Form::kPower) return ExpandToPower(graph, base.allgather, n);
    return ExpandToBidirectional(base.network, base.allgather);
  };
  auto network = build();
  if (!network) return Propagate(network);
  auto schedule = expand();
  if (!schedule) return Propagate(schedule);
  return Algorithm{std::move(*network), std::move(*schedule)};
}

Result<Algorithm> MakeAlgorithm(const Construction& of) {
  if (of.form == Form::kKautz) return MakeAlgorithm(AsLine(of));
  if (UsesBfb(of.form)) {
    auto network = BuildNetwork(of);
    if (!network) return Propagate(network);
    auto schedule = MakeBfbAllgather(network->graph);
    if (!schedule) return Propagate(schedule);
    return Algorithm{std::move(*network), std::move(*schedule)};
  }
  auto algorithm = MakeAlgorithm(of.parts.front());
  const std::int64_t n = of.numbers.empty() ? 1 : of.numbers.front();
  if (of.form != Form::kLine) {
    return algorithm ? ExpandOnce(of.form, n, *algorithm) : std::move(algorithm);
  }
  if (auto ok = CheckTimes(n); !ok) return Propagate(ok);
  for (std::int64_t i = 0; i < n && algorithm; ++i) algorithm = ExpandOnce(of.form, n, *algorithm);
  return algorithm;
}

}  // namespace

Result<Construction> ParseConstruction(std::string_view text) { return Parser(text).Parse(); }

std::string FormatConstruction(const Construction& construction) {
  std::vector<std::string> parameters;
  for (const Construction& part : construction.parts) {
    parameters.push_back(FormatConstruction(part));
  }
  for (const std::int64_t number : construction.numbers)
    parameters.push_back(std::to_string(number));
  return fmt::format("{}({})", TextOf(construction).name, fmt::join(parameters, ", "));
}

std::string ListForms() {
  constexpr std::size_t kWidth = 90;
  std::string text;
  std::size_t column = 0;
  for (const FormText& form : kForms) {
    const std::string one = fmt::format("{}({})", form.name, form.parameters);
    if (!text.empty()) text += column + one.size() > kWidth ? ",\n" : ", ";
    column = text.ends_with('\n') ? one.size() : column + one.size() + 2;
    text += one;
  }
  return text;
}

std::string Notation(const Construction& construction) {
  const std::vector<std::int64_t>& n = construction.numbers;
  const auto base = [&](bool grouped) {
    const Construction& part = construction.parts.front();
    const bool is_joint =
        part.form == Form::kDegree || part.form == Form::kPower || part.form == Form::kProduct;
    return grouped && is_joint ? "(" + Notation(part) + ")" : Notation(part);
  };
  switch (construction.form) {
    case Form::kComplete:
      return fmt::format("K_{}", n[0]);
    case Form::kBipartite:
      return fmt::format("K_{{{0},{0}}}", n[0]);
    case Form::kCirculant: {
      const auto offsets = Offsets(construction);
      return fmt::format("C({},{{{}}})", n[0],
                         fmt::join(offsets ? *offsets : std::vector<std::int64_t>(), ","));
    }
    case Form::kGeneralizedKautz:
      return fmt::format("Pi_{{{},{}}}", n[0], n[1]);
    case Form::kDeBruijn:
      return fmt::format("DBJ({},{})", n[0], n[1]);
    case Form::kKautz:
      return fmt::format("K({},{})", n[0], n[1]);
    case Form::kHamming:
      return fmt::format("H({},{})", n[0], n[1]);
    case Form::kDistanceRegular:
      return fmt::format("DistReg(4,{})", n[0]);
    case Form::kLine: {
      const std::int64_t times = Times(construction);
      return fmt::format("L{}({})", times == 1 ? "" : fmt::format("^{}", times), base(false));
    }
    case Form::kDegree:
      return fmt::format("{}*{}", base(true), n[0]);
    case Form::kPower:
      return fmt::format("{}^[]{}", base(true), n[0]);
    case Form::kBfb:
      return base(false) + " by BFB";
    case Form::kProduct: {
      std::vector<std::string> factors;
      for (const Construction& part : construction.parts) factors.push_back(Notation(part));
      return fmt::format("{}", fmt::join(factors, "[]"));
    }
    default:
      break;  // BiRing(d,m) and so on
  }
  std::vector<std::string> parameters;
  for (const Construction& part : construction.parts) parameters.push_back(Notation(part));
  for (const std::int64_t number : n) parameters.push_back(std::to_string(number));
  return fmt::format("{}({})", TextOf(construction).name, fmt::join(parameters, ","));
}

Result<Network> BuildNetwork(const Construction& of) {
  if (of.form == Form::kKautz) return BuildNetwork(AsLine(of));
  if (of.form < Form::kLine) return BuildFamily(of);
  auto network = BuildNetwork(of.parts.front());
  if (!network || of.form == Form::kBfb) return network;
  if (of.form == Form::kDegree) return BuildDegreeExpansion(*network, of.numbers.front());
  if (of.form == Form::kPower) return BuildPower(*network, of.numbers.front());
  if (of.form == Form::kBidirectional) return BuildBidirectional(*network);
  if (of.form == Form::kLine) {
    if (auto ok = CheckTimes(Times(of)); !ok) return Propagate(ok);
    for (std::int64_t i = 0; i < Times(of) && network; ++i) network = BuildLineGraph(*network);
    return network;
  }
  for (std::size_t i = 1; i < of.parts.size() && network; ++i) {
    auto factor = BuildNetwork(of.parts[i]);
    if (!factor) return factor;
    network = BuildProduct(*network, *factor);
  }
  return network;
}

Result<Schedule> MakeSchedule(const Construction& construction, Collective collective) {
  if (UsesBfb(construction.form) && collective != Collective::kAllgather) {
    auto network = BuildNetwork(construction);
    if (!network) return Propagate(network);
    return MakeBfbSchedule(network->graph, collective);
  }
  auto algorithm = MakeAlgorithm(construction);
  if (!algorithm) return Propagate(algorithm);
  if (collective == Collective::kAllgather) return std::move(algorithm->allgather);
  if (algorithm->network.reversal.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "no isomorphism between the network and its reverse is known, from which its other "
                "collectives would follow (use `schedule make bfb`)");
  }
  // The reverse is for the transpose, whose nodes the reversal maps back (Theorem 2).
  Schedule reduce = Rename(Reverse(algorithm->allgather), algorithm->network.reversal);
  if (collective == Collective::kReduceScatter) return reduce;
  return Concatenate(std::move(reduce), std::move(algorithm->allgather));
}

}  // namespace espalier::synthesis
