#include "controller/offline/comparators/comparators.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "common/base/random.h"
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
using controller::kLoadUnit;
using controller::kNoLink;

std::pair<std::uint32_t, std::uint32_t> Leaves(const Commodity& commodity) {
  return {commodity.source, commodity.destination};
}

// The usable paths of pairs of leaves.
class UsablePaths {
 public:
  explicit UsablePaths(FabricView& view) : view_(view) {}

  const std::vector<std::int32_t>& Of(const Commodity& commodity) {
    const auto [entry, is_new] = paths_.try_emplace(Leaves(commodity));
    if (is_new && commodity.source != commodity.destination) {
      const CandidatePaths& all = view_.Candidates(commodity.source, commodity.destination);
      for (std::size_t path = 0; path < all.size(); ++path) {
        if (view_.IsUsable(all.Hops(path))) {
          entry->second.push_back(static_cast<std::int32_t>(path));
        }
      }
    }
    return entry->second;
  }

 private:
  FabricView& view_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::int32_t>> paths_;
};

Assignment Unassigned(std::span<const Commodity> commodities) {
  Assignment assignment;
  assignment.Clear(commodities);
  return assignment;
}

void FillLoads(FabricView& view, std::span<const Commodity> commodities, Assignment& assignment) {
  assignment.max_load = ComputeMaxLoad(view, ComputeLoads(view, commodities, assignment));
  assignment.lower_bound = ComputeLowerBound(view, commodities);
}

class Annealing {
 public:
  Annealing(FabricView& view, std::span<const Commodity> commodities,
            const AnnealingOptions& options)
      : view_(view),
        commodities_(commodities),
        options_(options),
        random_(options.seed),
        loads_(view.capacities().size()),
        limits_(view.capacities().size()),
        result_(Unassigned(commodities)) {
    for (std::size_t link = 0; link < limits_.size(); ++link) {
      const double units = static_cast<double>(view.capacities()[link]) /
                           static_cast<double>(view.unit_bps()) * kLoadUnit;
      limits_[link] = static_cast<std::int64_t>(units);
    }
    NameDestinations();
    ListHops();
  }

  Assignment Run() {
    std::vector<std::uint32_t> best = cores_;
    for (std::uint32_t subflow = 0; subflow < destination_of_subflow_.size(); ++subflow)
      AddShare(subflow, 1);
    std::int64_t best_energy = energy_;
    for (std::int64_t step = 0; step < options_.steps && CanSwap(); ++step) {
      const double temperature = static_cast<double>(options_.steps - step);
      if (Step(temperature) && energy_ < best_energy) {
        best_energy = energy_;
        best = cores_;
      }
      if (best_energy == 0) break;
    }
    cores_ = best;
    for (std::uint32_t subflow = 0; subflow < destination_of_subflow_.size(); ++subflow) {
      if (const auto& usable = *subflow_paths_[subflow]; !usable.empty()) {
        result_.paths[subflow] = usable[cores_[destination_of_subflow_[subflow]] % usable.size()];
      }
    }
    FillLoads(view_, commodities_, result_);
    return std::move(result_);
  }

 private:
  // Numbers the destinations and distributes the cores within each leaf.
  void NameDestinations() {
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> numbers;
    std::map<std::uint32_t, std::uint32_t> cores_of_leaf;
    for (std::uint32_t i = 0; i < commodities_.size(); ++i) {
      const Commodity& commodity = commodities_[i];
      for (std::uint32_t subflow = 0; subflow < commodity.subflows; ++subflow) {
        const bool has_nic = commodity.destination_link != kNoLink;
        const auto key =
            std::tuple(has_nic ? commodity.destination_link : kNoLink, has_nic ? 0 : i, subflow);
        const auto [entry, is_new] =
            numbers.try_emplace(key, static_cast<std::uint32_t>(cores_.size()));
        if (is_new) {
          cores_.push_back(cores_of_leaf[commodity.destination]++);
          destinations_of_leaf_[commodity.destination].push_back(entry->second);
          leaf_of_destination_.push_back(commodity.destination);
          subflows_of_destination_.emplace_back();
        }
        subflows_of_destination_[entry->second].push_back(
            static_cast<std::uint32_t>(destination_of_subflow_.size()));
        destination_of_subflow_.push_back(entry->second);
        commodity_of_subflow_.push_back(i);
      }
    }
  }

  void ListHops() {
    for (const std::uint32_t commodity : commodity_of_subflow_) {
      subflow_paths_.push_back(&usable_.Of(commodities_[commodity]));
    }
  }

  bool CanSwap() const { return cores_.size() > 1; }

  std::uint32_t Below(std::size_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  // Makes one swap, and undoes it if it is not accepted.
  bool Step(double temperature) {
    constexpr double kHedera = 0.5;  // c / T0
    const std::uint32_t a = Below(cores_.size());
    const auto& siblings = destinations_of_leaf_[leaf_of_destination_[a]];
    const bool is_within_leaf = random_() % 2 == 0 && siblings.size() > 1;
    const std::uint32_t b =
        is_within_leaf ? siblings[Below(siblings.size())] : Below(cores_.size());
    if (a == b) return false;
    const std::int64_t before = energy_;
    Swap(a, b);
    if (energy_ <= before) return true;
    const double factor = kHedera * static_cast<double>(options_.steps) / temperature;
    const double change = static_cast<double>(before - energy_) / kLoadUnit;
    const double chance = std::exp(change * factor);
    if (static_cast<double>(random_() >> 11) * 0x1.0p-53 < chance) return true;
    Swap(a, b);
    return false;
  }

  void Swap(std::uint32_t a, std::uint32_t b) {
    for (const std::uint32_t destination : {a, b}) {
      for (const std::uint32_t subflow : subflows_of_destination_[destination])
        AddShare(subflow, -1);
    }
    std::swap(cores_[a], cores_[b]);
    for (const std::uint32_t destination : {a, b}) {
      for (const std::uint32_t subflow : subflows_of_destination_[destination])
        AddShare(subflow, 1);
    }
  }

  // Adds a subflow's share to the links of its path, or removes it, and updates the energy.
  void AddShare(std::uint32_t subflow, int sign) {
    const std::vector<std::int32_t>& usable = *subflow_paths_[subflow];
    if (usable.empty()) return;
    const Commodity& commodity = commodities_[commodity_of_subflow_[subflow]];
    hops_.clear();
    view_.AppendHops(commodity.source, commodity.destination,
                     usable[cores_[destination_of_subflow_[subflow]] % usable.size()], hops_);
    for (const std::uint32_t link : hops_) {
      energy_ -= Excess(link);
      loads_[link] += sign * (kLoadUnit / commodity.subflows);
      energy_ += Excess(link);
    }
  }

  std::int64_t Excess(std::uint32_t link) const {
    return std::max<std::int64_t>(0, loads_[link] - limits_[link]);
  }

  FabricView& view_;
  std::span<const Commodity> commodities_;
  const AnnealingOptions& options_;
  std::mt19937_64 random_;
  UsablePaths usable_{view_};
  // By destination:
  std::vector<std::uint32_t> cores_;
  std::vector<std::uint32_t> leaf_of_destination_;
  std::vector<std::vector<std::uint32_t>> subflows_of_destination_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> destinations_of_leaf_;
  // By subflow of all commodities:
  std::vector<std::uint32_t> destination_of_subflow_;
  std::vector<std::uint32_t> commodity_of_subflow_;
  std::vector<const std::vector<std::int32_t>*> subflow_paths_;
  // By link, in units of 1 / kLoadUnit of a flow:
  std::vector<std::int64_t> loads_;
  std::vector<std::int64_t> limits_;
  std::int64_t energy_ = 0;
  std::vector<std::uint32_t> hops_;
  Assignment result_;
};

}  // namespace

Assignment AssignByHash(FabricView& view, std::span<const Commodity> commodities,
                        std::span<const std::uint64_t> keys, std::uint64_t seed) {
  ESPALIER_CHECK(keys.size() == commodities.size());
  UsablePaths usable(view);
  Assignment assignment = Unassigned(commodities);
  for (std::size_t i = 0; i < commodities.size(); ++i) {
    const std::vector<std::int32_t>& paths = usable.Of(commodities[i]);
    for (std::uint32_t subflow = 0; subflow < commodities[i].subflows && !paths.empty();
         ++subflow) {
      const std::uint64_t hash = Mix64(Mix64(Mix64(seed + 1) ^ keys[i]) + subflow);
      assignment.paths[assignment.first[i] + subflow] = paths[hash % paths.size()];
    }
  }
  FillLoads(view, commodities, assignment);
  return assignment;
}

Assignment AssignByAnnealing(FabricView& view, std::span<const Commodity> commodities,
                             const AnnealingOptions& options) {
  return Annealing(view, commodities, options).Run();
}

}  // namespace espalier::offline
