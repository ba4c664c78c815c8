#include "collective/runtime/choice/cost_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "collective/program/verifier/verifier.h"

namespace espalier::runtime {
namespace {

constexpr std::size_t kTerms = 4;
using Terms = std::array<double, kTerms>;

Terms TermsOf(const Work& work) {
  return {work.rounds, work.messages, work.bytes, work.reduced_bytes};
}

// Non-negative least squares: minimises the sum over all rows a of (a x - 1)^2 subject to x >= 0,
// by coordinate descent. The problem is convex and its constraints are separable, so the descent
// converges to the optimum. `products` and `sums` are A^T A and A^T 1.
Terms SolveNonNegative(const std::array<Terms, kTerms>& products, const Terms& sums) {
  constexpr int kSweeps = 2000;
  constexpr double kStill = 1e-12;
  Terms x = {};
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double moved = 0;
    for (std::size_t i = 0; i < kTerms; ++i) {
      if (products[i][i] <= 0) continue;
      double rest = sums[i];
      for (std::size_t j = 0; j < kTerms; ++j) rest -= j == i ? 0 : products[i][j] * x[j];
      const double next = std::max(0.0, rest / products[i][i]);
      moved = std::max(moved, std::abs(next - x[i]));
      x[i] = next;
    }
    if (moved < kStill) break;
  }
  return x;
}

// Iteratively reweighted least squares: each row is weighted by the inverse of what the previous
// solution predicts for it.
Terms Reweighted(const std::vector<Terms>& rows) {
  constexpr int kRounds = 30;
  constexpr double kLeastPrediction = 1e-3;
  std::vector<double> weights(rows.size(), 1);
  Terms x = {};
  for (int round = 0; round < kRounds; ++round) {
    std::array<Terms, kTerms> products = {};
    Terms sums = {};
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t i = 0; i < kTerms; ++i) {
        sums[i] += weights[r] * rows[r][i];
        for (std::size_t j = 0; j < kTerms; ++j) {
          products[i][j] += weights[r] * rows[r][i] * rows[r][j];
        }
      }
    }
    x = SolveNonNegative(products, sums);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      double predicted = 0;
      for (std::size_t i = 0; i < kTerms; ++i) predicted += rows[r][i] * x[i];
      weights[r] = 1 / std::max(predicted, kLeastPrediction);
    }
  }
  return x;
}

using Amount = ProgramWork::Amount;

// What a rank sends or receives.
struct Traffic {
  Amount sent;
  Amount received;

  void Add(const Traffic& more) {
    sent.chunks += more.sent.chunks;
    received.chunks += more.received.chunks;
  }
};

// Counts the messages with peers for which `counts` holds.
template <typename Counts>
Traffic CountTraffic(const program::RankProgram& rank, const Counts& counts) {
  Traffic traffic;
  for (const program::ThreadBlock& block : rank.blocks) {
    for (const program::Step& step : block.steps) {
      if (program::Sends(step.op) && counts(block.send_peer)) {
        traffic.sent.messages += 1;
        traffic.sent.chunks += step.count;
      }
      if (program::Receives(step.op) && counts(block.receive_peer)) {
        traffic.received.messages += 1;
        traffic.received.chunks += step.count;
      }
    }
  }
  return traffic;
}

double CountReduced(const program::RankProgram& rank) {
  double reduced = 0;
  for (const program::ThreadBlock& block : rank.blocks) {
    for (const program::Step& step : block.steps) {
      const double count = step.count;
      // A copy to or from scratch is a pass over memory, too; data that is sent on without being
      // stored is half a pass.
      const bool passes = step.op == program::OpCode::kReceiveReduceCopy ||
                          step.op == program::OpCode::kReceiveReduceCopySend ||
                          step.op == program::OpCode::kReduce || step.op == program::OpCode::kCopy;
      if (passes) reduced += count;
      if (step.op == program::OpCode::kReceiveReduceSend) reduced += count / 2;
    }
  }
  return reduced;
}

Amount BusierOf(const Traffic& traffic, double reduced) {
  return {.messages = std::max(traffic.sent.messages, traffic.received.messages),
          .chunks = std::max(traffic.sent.chunks, traffic.received.chunks),
          .reduced_chunks = reduced};
}

ProgramWork WorkWithoutAmounts(const program::Program& program) {
  ProgramWork work;
  work.all_chunks = program.collective.chunks;
  work.mean_count = program::CountMessages(program).mean();
  work.ranks = static_cast<double>(program.ranks.size());
  return work;
}

void AddRank(ProgramWork& work, const Amount& own) {
  work.busiest = {.messages = std::max(work.busiest.messages, own.messages),
                  .chunks = std::max(work.busiest.chunks, own.chunks),
                  .reduced_chunks = std::max(work.busiest.reduced_chunks, own.reduced_chunks)};
  work.mean.messages += own.messages / work.ranks;
  work.mean.chunks += own.chunks / work.ranks;
  work.mean.reduced_chunks += own.reduced_chunks / work.ranks;
}

}  // namespace

double Predict(const Costs& costs, const Work& work) {
  return costs.round * work.rounds + costs.message * work.messages + costs.byte * work.bytes +
         costs.reduced_byte * work.reduced_bytes;
}

Costs FitCosts(std::span<const CostSample> samples, int lanes) {
  std::vector<Terms> rows;  // divided by the measured time
  Terms scale = {};         // costs of seconds and bytes differ by many powers of ten
  for (const CostSample& sample : samples) {
    if (sample.seconds <= 0) continue;
    Terms& row = rows.emplace_back(TermsOf(sample.work));
    for (std::size_t i = 0; i < kTerms; ++i) {
      row[i] /= sample.seconds;
      scale[i] = std::max(scale[i], row[i]);
    }
  }
  for (Terms& row : rows) {
    for (std::size_t i = 0; i < kTerms; ++i) row[i] = scale[i] > 0 ? row[i] / scale[i] : 0;
  }
  Terms x = Reweighted(rows);
  // A cost that explains less than a billionth of every sample is zero.
  constexpr double kLeast = 1e-9;
  for (std::size_t i = 0; i < kTerms; ++i) x[i] = x[i] > kLeast ? x[i] / scale[i] : 0;
  return {.round = x[0], .message = x[1], .byte = x[2], .reduced_byte = x[3], .lanes = lanes};
}

ProgramWork MeasureWork(const program::Program& program) {
  ProgramWork work = WorkWithoutAmounts(program);
  work.rounds = static_cast<double>(program::MeasureCost(program).steps);
  for (const program::RankProgram& rank : program.ranks) {
    AddRank(work,
            BusierOf(CountTraffic(rank, [](std::int32_t) { return true; }), CountReduced(rank)));
  }
  return work;
}

HostsWork MeasureWork(const program::Program& program, int ranks_per_host) {
  HostsWork work{WorkWithoutAmounts(program), WorkWithoutAmounts(program)};
  const program::Cost cost = program::MeasureCost(program, ranks_per_host);
  work.within.rounds = static_cast<double>(cost.steps - cost.cross_steps);
  work.between.rounds = static_cast<double>(cost.cross_steps);
  Traffic of_host;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const program::RankProgram& code = program.ranks[rank];
    const int host = static_cast<int>(rank) / ranks_per_host;
    const auto is_within = [&](std::int32_t peer) { return peer / ranks_per_host == host; };
    AddRank(work.within, BusierOf(CountTraffic(code, is_within), CountReduced(code)));
    Traffic across = CountTraffic(code, [&](std::int32_t peer) { return !is_within(peer); });
    if (static_cast<int>(rank) % ranks_per_host == 0) of_host = {};
    of_host.Add(across);
    across.sent.chunks = of_host.sent.chunks;
    across.received.chunks = of_host.received.chunks;
    AddRank(work.between, BusierOf(across, 0));
  }
  work.within.ranks = ranks_per_host;  // those that share cores
  work.between.mean = {};
  return work;
}

Work ScaleWork(const ProgramWork& work, std::size_t bytes, std::size_t message_bytes, int lanes) {
  const double chunk = static_cast<double>(bytes) / work.all_chunks;
  const double tiles =
      std::max(1.0, std::ceil(chunk * work.mean_count / static_cast<double>(message_bytes)));
  const double ranks_a_lane = lanes > 0 ? std::max(1.0, work.ranks / lanes) : 1.0;
  const auto most = [&](double Amount::*what) {
    return std::max(work.busiest.*what, work.mean.*what * ranks_a_lane);
  };
  const double own = chunk * most(&Amount::chunks);
  // When the busiest rank has sent everything, the last rank of a chain still waits for one tile.
  const double chain = work.rounds * work.mean_count * chunk;
  return {.rounds = work.rounds + tiles - 1,
          .messages = most(&Amount::messages) * tiles,
          .bytes = own + std::max(0.0, chain - own) / tiles,
          .reduced_bytes = chunk * most(&Amount::reduced_chunks)};
}

}  // namespace espalier::runtime
