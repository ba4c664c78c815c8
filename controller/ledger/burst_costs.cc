#include "controller/ledger/burst_costs.h"

#include <algorithm>

#include "common/base/enum_names.h"
#include "common/base/random.h"

namespace espalier::controller {
namespace {

// Steps of Assigner::Optimal, about 100 ns each, beside those that a theorem needs.
constexpr std::int64_t kStepsOfOptimum = 20'000;

std::uint32_t SubflowsOf(Scheme scheme, const BurstFlow& flow) {
  switch (scheme) {
    case Scheme::kEcmp4:
      return 4;
    case Scheme::kEcmp16:
      return 16;
    case Scheme::kPresent:
      return flow.subflows;
    default:
      return 1;
  }
}

// The paths that are known of a flow by this scheme, from the first subflow on.
std::span<const std::int32_t> KnownPaths(Scheme scheme, const BurstFlow& flow) {
  if (scheme == Scheme::kPresent) return std::span(flow.paths).first(flow.subflows);
  if (scheme == Scheme::kEcmp) return std::span(&flow.own_path, 1);
  return {};
}

bool Crosses(const BurstFlow& flow) { return flow.source != flow.destination; }

// A number below `bound` by the upper bits of a random one.
std::uint32_t Below(std::uint64_t random, std::uint32_t bound) {
  return static_cast<std::uint32_t>(((random >> 32U) * bound) >> 32U);
}

bool IsSet(std::span<const std::uint64_t> bits, std::size_t word, std::uint32_t bit) {
  return (bits[word + bit / 64] >> (bit % 64U) & 1U) != 0;
}

}  // namespace

std::string_view SchemeName(Scheme scheme) {
  static constexpr EnumNames<Scheme> kNames({{Scheme::kPresent, "PRESENT"},
                                             {Scheme::kEcmp, "ECMP"},
                                             {Scheme::kEcmp4, "ECMP_4"},
                                             {Scheme::kEcmp16, "ECMP_16"},
                                             {Scheme::kOptimum, "OPTIMUM"},
                                             {Scheme::kOneMoreSpine, "ECMP_ONE_MORE_SPINE"}});
  return kNames.NameOf(scheme);
}

BurstCostModel::BurstCostModel(FabricView& view)
    : view_(view),
      assigner_(view),
      loads_(view.capacities().size() + 2 * std::size_t{view.leaf_count()}) {}

std::int64_t BurstCostModel::RateOf(std::uint32_t link) const {
  const auto capacities = view_.capacities();
  return link < capacities.size() ? capacities[link] : view_.unit_bps();
}

bool BurstCostModel::MayHaveMoreSpines() const {
  return view_.clos() && view_.clos()->all_known && view_.clos()->equal_rates;
}

void BurstCostModel::Add(std::uint32_t link, double bytes, bool is_own) {
  LinkLoad& load = loads_[link];
  if (!load.is_touched) touched_.push_back(link);
  load.is_touched = true;
  load.bytes += bytes;
  load.has_own = load.has_own || is_own;
}

double BurstCostModel::TakeSeconds() {
  double longest = 0;
  for (const std::uint32_t link : touched_) {
    LinkLoad& load = loads_[link];
    const std::int64_t bps = RateOf(link);
    if (load.has_own && bps > 0) {
      longest = std::max(longest, 8 * load.bytes / static_cast<double>(bps));
    }
    load = {};
  }
  touched_.clear();
  return longest;
}

bool BurstCostModel::DrawHops(const BurstFlow& flow, std::uint64_t random, bool has_more_spines) {
  hops_.clear();
  if (const auto& clos = view_.clos()) {
    const std::uint32_t spines = clos->spines + (has_more_spines ? 1 : 0);
    const std::uint32_t spine = Below(random, spines);
    if (spine == clos->spines) {
      const auto behind = static_cast<std::uint32_t>(view_.capacities().size());
      hops_ = {behind + 2 * flow.source, behind + 2 * flow.destination + 1};
      return true;
    }
    const bool is_usable =
        IsSet(clos->up_live, std::size_t{flow.source} * clos->words, spine) &&
        IsSet(clos->down_live, std::size_t{flow.destination} * clos->words, spine);
    if (!is_usable) return false;
    hops_ = {clos->up[std::size_t{flow.source} * clos->spines + spine],
             clos->down[std::size_t{flow.destination} * clos->spines + spine]};
    return true;
  }
  if (const auto& folded = view_.folded_clos()) {
    const std::uint32_t from = view_.FoldedLeaf(flow.source);
    const std::uint32_t to = view_.FoldedLeaf(flow.destination);
    const std::uint32_t common = folded->CommonBlock(from, to);
    if (common == fabric::FoldedClos::kNone) return false;
    folded->AppendLinks(from, to, common, Below(random, folded->blocks[common].labels), hops_);
    return view_.IsUsable(hops_);
  }
  const CandidatePaths& paths = view_.Candidates(flow.source, flow.destination);
  if (paths.size() == 0) return false;
  const auto hops = paths.Hops(Below(random, static_cast<std::uint32_t>(paths.size())));
  hops_.assign(hops.begin(), hops.end());
  return view_.IsUsable(hops_);
}

// Draws again while a path is not usable, so that all usable ones have the same chance. A flow with
// hardly any usable path may be left out.
void BurstCostModel::AddDrawn(const BurstFlow& flow, bool is_own, double bytes,
                              std::uint64_t random, bool has_more_spines) {
  constexpr int kMostTries = 64;
  Random draws(random);
  for (int tries = 0; tries < kMostTries; ++tries) {
    if (!DrawHops(flow, draws.Next(), has_more_spines)) continue;
    for (const std::uint32_t link : hops_) Add(link, bytes, is_own);
    return;
  }
}

void BurstCostModel::AddPath(const BurstFlow& flow, bool is_own, double bytes, std::int32_t path) {
  hops_.clear();
  view_.AppendHops(flow.source, flow.destination, path, hops_);
  for (const std::uint32_t link : hops_) Add(link, bytes, is_own);
}

void BurstCostModel::AddFlow(const BurstFlow& flow, bool is_own,
                             std::span<const std::int32_t> paths, std::uint64_t draw,
                             bool has_more_spines) {
  const double bytes = flow.bytes / static_cast<double>(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths[i] != kNoPath) {
      AddPath(flow, is_own, bytes, paths[i]);
    } else {
      const std::uint64_t random = Mix64(flow.key ^ Mix64((draw + 1) * kMaxSubflows + i));
      AddDrawn(flow, is_own, bytes, random, has_more_spines);
    }
  }
}

double BurstCostModel::SecondsOfNics(std::span<const BurstFlow> flows, std::size_t own) {
  for (std::size_t i = 0; i < flows.size(); ++i) {
    for (const std::uint32_t link : {flows[i].source_link, flows[i].destination_link}) {
      if (link != kNoLink) Add(link, flows[i].bytes, i < own);
    }
  }
  return TakeSeconds();
}

BurstCosts::Seconds BurstCostModel::SecondsOf(Scheme scheme, std::span<const BurstFlow> flows,
                                              std::size_t own, double nics) {
  BurstCosts::Seconds seconds{};
  std::array<std::int32_t, kMaxSubflows> paths{};
  bool is_drawn = true;
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    if (!is_drawn) {
      seconds[draw] = seconds[0];
      continue;
    }
    is_drawn = false;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (!Crosses(flows[i])) continue;
      paths.fill(kNoPath);
      std::ranges::copy(KnownPaths(scheme, flows[i]), paths.begin());
      const auto of_flow = std::span(paths).first(SubflowsOf(scheme, flows[i]));
      is_drawn = is_drawn || std::ranges::find(of_flow, kNoPath) != of_flow.end();
      AddFlow(flows[i], i < own, of_flow, draw, scheme == Scheme::kOneMoreSpine);
    }
    seconds[draw] = std::max(nics, TakeSeconds());
  }
  return seconds;
}

double BurstCostModel::SecondsOfOptimum(std::span<const BurstFlow> flows, std::size_t own,
                                        double nics, BurstCosts& costs) {
  std::vector<Commodity> commodities;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (!Crosses(flows[i])) continue;
    places.push_back(i);
    commodities.push_back({.source = flows[i].source,
                           .destination = flows[i].destination,
                           .job = i < own ? 0U : 1U,
                           .subflows = flows[i].subflows,
                           .source_link = flows[i].source_link,
                           .destination_link = flows[i].destination_link});
  }
  const Assignment& assignment = assigner_.Optimal(commodities, {.step_budget = kStepsOfOptimum});
  costs.is_proven = assignment.proof != Proof::kNone;
  for (std::size_t c = 0; c < places.size(); ++c) {
    const BurstFlow& flow = flows[places[c]];
    for (std::size_t at = assignment.first[c]; at < assignment.first[c + 1]; ++at) {
      if (assignment.paths[at] == kNoPath) continue;
      AddPath(flow, places[c] < own, flow.bytes / flow.subflows, assignment.paths[at]);
    }
  }
  return std::max(nics, TakeSeconds());
}

BurstCosts BurstCostModel::Compute(std::span<const BurstFlow> flows, std::size_t own) {
  BurstCosts costs;
  for (const BurstFlow& flow : flows.first(own)) {
    if (!Crosses(flow)) continue;
    ++costs.crossing;
    costs.known += flow.own_path != kNoPath ? 1 : 0;
  }
  const double nics = SecondsOfNics(flows, own);
  for (std::size_t i = 0; i < kSchemes; ++i) {
    const auto scheme = static_cast<Scheme>(i);
    if (scheme == Scheme::kOptimum) {
      costs.seconds[i].emplace().fill(SecondsOfOptimum(flows, own, nics, costs));
    } else if (scheme != Scheme::kOneMoreSpine || MayHaveMoreSpines()) {
      costs.seconds[i] = SecondsOf(scheme, flows, own, nics);
    }
  }
  return costs;
}

}  // namespace espalier::controller
