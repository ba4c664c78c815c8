#include "collective/forest/allreduce/allreduce_program.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <utility>
#include <vector>

namespace espalier::forest {
namespace {

// Solvers limit the length of a line.
constexpr std::size_t kTermsALine = 8;

// A sum that is written term by term.
class Sum {
 public:
  void Add(std::string_view sign, std::string_view variable) {
    fmt::format_to(std::back_inserter(text_), " {} {}", sign, variable);
    if (++terms_ % kTermsALine == 0) text_ += '\n';
  }
  bool Empty() const { return terms_ == 0; }
  const std::string& Text() const { return text_; }

 private:
  std::string text_;
  std::size_t terms_ = 0;
};

struct LogicalArc {
  std::int32_t from = 0;
  std::int32_t to = 0;
};

class ProgramWriter {
 public:
  explicit ProgramWriter(const Problem& problem)
      : problem_(problem),
        ranks_(problem.rank_count),
        routed_(problem.node_count > problem.rank_count),
        mirrored_(Transpose(problem).arcs == problem.arcs),
        loads_(problem.arcs.size()) {}

  Result<std::string> Write() {
    const std::int64_t arcs = routed_ ? std::int64_t{ranks_} * (ranks_ - 1) : ArcCount();
    const std::int64_t variables =
        (arcs + ranks_ * (arcs + (routed_ ? ArcCount() : 0))) * (mirrored_ ? 1 : 2) + ranks_;
    if (variables > kMaxProgramVariables) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("the linear program of the best allreduce over {} ranks has {} "
                              "variables, more than the limit of {} (use fewer ranks)",
                              ranks_, variables, kMaxProgramVariables));
    }
    Sum total;
    total.Add("", "rate");
    for (std::int32_t v = 0; v < ranks_; ++v) total.Add("-", fmt::format("x{}", v));
    AddRow(total, "= 0");
    AddPhase(false);
    if (!mirrored_) AddPhase(true);
    for (std::size_t a = 0; a < loads_.size(); ++a) {
      if (!loads_[a].Empty()) AddRow(loads_[a], fmt::format("<= {}", problem_.arcs[a].capacity));
    }
    return "Maximize\n obj: rate\nSubject To\n" + rows_ + "End\n";
  }

 private:
  std::int64_t ArcCount() const { return static_cast<std::int64_t>(problem_.arcs.size()); }

  void AddRow(const Sum& sum, std::string_view relation) {
    fmt::format_to(std::back_inserter(rows_), " r{}:{} {}\n", row_count_++, sum.Text(), relation);
  }

  // Adds the load of an arc to its link, and in the symmetric half to the reverse link.
  void AddLoad(std::size_t arc, std::string_view variable) {
    loads_[arc].Add("+", variable);
    if (!mirrored_) return;
    const Arc& own = problem_.arcs[arc];
    loads_[static_cast<std::size_t>(problem_.FindArc(own.head, own.tail))].Add("+", variable);
  }

  // turned: the trees that reduce, on the reversed arcs.
  void AddPhase(bool turned) {
    const char* phase = turned ? "r" : "b";
    std::vector<Arc> arcs = problem_.arcs;
    for (Arc& arc : arcs) {
      if (turned) std::swap(arc.tail, arc.head);
    }
    std::vector<LogicalArc> logical;
    if (routed_) {
      for (std::int32_t from = 0; from < ranks_; ++from) {
        for (std::int32_t to = 0; to < ranks_; ++to) {
          if (from != to) logical.push_back({from, to});
        }
      }
      for (std::int32_t from = 0; from < ranks_; ++from) AddRouting(phase, arcs, from);
    } else {
      for (std::size_t a = 0; a < arcs.size(); ++a) {
        logical.push_back({arcs[a].tail, arcs[a].head});
        AddLoad(a, CapacityName(phase, logical.back()));
      }
    }
    for (std::int32_t to = 0; to < ranks_; ++to) AddFlow(phase, logical, to);
  }

  static std::string CapacityName(std::string_view phase, const LogicalArc& arc) {
    return fmt::format("c{}{}_{}", phase, arc.from, arc.to);
  }

  // Routes x_v from every rank v to one rank, within the capacities between ranks.
  void AddFlow(std::string_view phase, const std::vector<LogicalArc>& logical, std::int32_t to) {
    std::vector<Sum> balances(static_cast<std::size_t>(ranks_));
    for (const LogicalArc& arc : logical) {
      if (arc.from == to) continue;
      const std::string flow = fmt::format("f{}{}_{}_{}", phase, to, arc.from, arc.to);
      balances[static_cast<std::size_t>(arc.from)].Add("+", flow);
      balances[static_cast<std::size_t>(arc.to)].Add("-", flow);
      Sum within;
      within.Add("", flow);
      within.Add("-", CapacityName(phase, arc));
      AddRow(within, "<= 0");
    }
    for (std::int32_t v = 0; v < ranks_; ++v) {
      if (v == to) continue;
      Sum& balance = balances[static_cast<std::size_t>(v)];
      balance.Add("-", fmt::format("x{}", v));
      AddRow(balance, "= 0");
    }
  }

  // Routes the capacities out of one rank over links and switches, as one commodity.
  void AddRouting(std::string_view phase, const std::vector<Arc>& arcs, std::int32_t from) {
    std::vector<Sum> balances(static_cast<std::size_t>(problem_.node_count));
    for (std::size_t a = 0; a < arcs.size(); ++a) {
      const Arc& arc = arcs[a];
      if ((problem_.IsRank(arc.tail) && arc.tail != from) || arc.head == from) continue;
      const std::string flow = fmt::format("h{}{}_{}", phase, from, a);
      AddLoad(a, flow);
      balances[static_cast<std::size_t>(arc.head)].Add("+", flow);
      if (arc.tail != from) balances[static_cast<std::size_t>(arc.tail)].Add("-", flow);
    }
    for (std::int32_t node = 0; node < problem_.node_count; ++node) {
      Sum& balance = balances[static_cast<std::size_t>(node)];
      if (problem_.IsRank(node) && node != from) {
        balance.Add("-", CapacityName(phase, {from, node}));
      }
      if (!balance.Empty()) AddRow(balance, "= 0");
    }
  }

  const Problem& problem_;
  std::int32_t ranks_;
  bool routed_;
  bool mirrored_;
  std::vector<Sum> loads_;  // by arc
  std::string rows_;
  std::int64_t row_count_ = 0;
};

}  // namespace

Result<std::string> WriteAllreduceProgram(const Problem& problem) {
  return ProgramWriter(problem).Write();
}

Result<double> ReadAllreduceRate(std::string_view solution) {
  if (!solution.starts_with("Optimal")) {
    return Fail(ErrorCode::kResourceExhausted,
                "the solver found no optimum within its time limit (use fewer ranks)");
  }
  // Each variable that is not 0 has a line NUMBER NAME VALUE COST.
  const std::size_t name = solution.find(" rate ");
  const std::size_t begin =
      name == std::string_view::npos ? name : solution.find_first_not_of(' ', name + 6);
  double value = 0;
  if (begin == std::string_view::npos ||
      std::from_chars(solution.data() + begin, solution.data() + solution.size(), value).ec !=
          std::errc() ||
      value <= 0) {
    return Fail(ErrorCode::kInternal, "the solver's output does not match the program");
  }
  return value;
}

}  // namespace espalier::forest
