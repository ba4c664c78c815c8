#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "controller/routing/assigner.h"
#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// The ways to place a burst that the ledger compares.
enum class Scheme : std::uint8_t {
  kPresent,       // the paths on which the flows are
  kEcmp,          // each flow on the path of its own source port
  kEcmp4,         // each flow evenly over 4 queue pairs, whose ports the fabric hashes
  kEcmp16,        // the same over 16
  kOptimum,       // the paths that Espalier would assign (Assigner::Optimal)
  kOneMoreSpine,  // kEcmp in a fabric with one more spine
};
constexpr std::size_t kSchemes = 6;
std::string_view SchemeName(Scheme scheme);  // "PRESENT", "ECMP", "ECMP_4", ...

// A flow of a burst.
struct BurstFlow {
  std::uint32_t source = 0;  // leaves; the same one: it loads only its NICs
  std::uint32_t destination = 0;
  std::uint32_t source_link = kNoLink;  // of its NICs
  std::uint32_t destination_link = kNoLink;
  std::uint64_t key = 0;                           // tells it from all other flows, in every burst
  double bytes = 0;                                // that it sent in the burst
  std::int32_t own_path = kNoPath;                 // of its own source port; kNoPath: not known
  std::uint8_t subflows = 1;                       // 1 to kMaxSubflows
  std::array<std::int32_t, kMaxSubflows> paths{};  // on which they are; kNoPath: not known
};

// What a burst costs by each scheme: for how long the most loaded link that carries a flow of the
// burst's job, those of NICs included, has to send at its full rate. Others' flows that send
// meanwhile count on these links.
struct BurstCosts {
  static constexpr std::size_t kDraws = 40;
  using Seconds = std::array<double, kDraws>;

  // By scheme. Where paths are not known, each draw chooses one for each flow, the same one in
  // every burst, as connections live for long; where all are known, the draws are equal. None: the
  // scheme does not apply to this fabric.
  std::array<std::optional<Seconds>, kSchemes> seconds;
  std::size_t crossing = 0;  // flows of the job that cross the fabric
  std::size_t known = 0;     // of these, those whose own path is known
  bool is_proven = false;    // no assignment of whole flows has a lower load than kOptimum
};

// Computes the costs of bursts. It is a model: it takes a burst's time for that of its most loaded
// link, and leaves out what queues, losses and waiting cost. A hashed flow takes each usable path
// with equal chance, which holds for switches that hash all equal next hops alike. What is not
// reported as a flow does not count.
//
// Cost: O(flows x kDraws x subflows x hops) and that of Assigner::Optimal (tests/bench/ledger_bench
// measures it). Deterministic. Thread safety: one thread; the view must outlive it.
class BurstCostModel {
 public:
  // What a burst costs to compute, in draws of a path, for budgets.
  static constexpr std::int64_t StepsOf(std::size_t flows) {
    return static_cast<std::int64_t>(flows * kDraws * (1 + 1 + 4 + 16 + 1));
  }

  explicit BurstCostModel(FabricView& view);

  // The first `own` flows are the job's.
  BurstCosts Compute(std::span<const BurstFlow> flows, std::size_t own);

 private:
  static constexpr std::size_t kDraws = BurstCosts::kDraws;

  // Which path each of the `subflows` takes: one that is given, or a drawn one (kNoPath).
  void AddFlow(const BurstFlow& flow, bool is_own, std::span<const std::int32_t> paths,
               std::uint64_t draw, bool has_more_spines);
  void AddPath(const BurstFlow& flow, bool is_own, double bytes, std::int32_t path);
  void AddDrawn(const BurstFlow& flow, bool is_own, double bytes, std::uint64_t random,
                bool has_more_spines);
  void Add(std::uint32_t link, double bytes, bool is_own);
  // Puts the links of the drawn path into hops_; false: it is not usable.
  bool DrawHops(const BurstFlow& flow, std::uint64_t random, bool has_more_spines);
  // The time of the most loaded link with a flow of the job; forgets all loads.
  double TakeSeconds();
  double SecondsOfNics(std::span<const BurstFlow> flows, std::size_t own);
  BurstCosts::Seconds SecondsOf(Scheme scheme, std::span<const BurstFlow> flows, std::size_t own,
                                double nics);
  double SecondsOfOptimum(std::span<const BurstFlow> flows, std::size_t own, double nics,
                          BurstCosts& costs);
  std::int64_t RateOf(std::uint32_t link) const;
  // Whether another spine can be imagined: two tiers, every leaf on every spine, one rate.
  bool MayHaveMoreSpines() const;

  FabricView& view_;
  Assigner assigner_;
  struct LinkLoad {
    double bytes = 0;
    bool is_touched = false;
    bool has_own = false;
  };
  // By directed link; behind them the two links of each leaf to one more spine.
  std::vector<LinkLoad> loads_;
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> hops_;
};

}  // namespace espalier::controller
