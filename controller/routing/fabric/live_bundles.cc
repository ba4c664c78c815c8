#include "controller/routing/fabric/live_bundles.h"

#include <algorithm>
#include <utility>

namespace espalier::controller {
namespace {

// The live links of one bundle, and their rate.
struct BundleState {
  std::uint32_t live = 0;
  std::int64_t rate_bps = 0;
  bool has_one_rate = true;
};

class BundleReader {
 public:
  BundleReader(const BundledClos& clos, std::span<const std::int64_t> capacities)
      : clos_(clos), capacities_(capacities) {}

  std::optional<LiveBundles> Run() {
    live_.groups.resize(clos_.groups.size());
    for (std::uint32_t group = 0; group < clos_.groups.size(); ++group) {
      if (!(clos_.has_uplinks ? ReadUplinks(group) : TakeOnlyLeaf(group))) return std::nullopt;
    }
    FindSpines();
    for (std::uint32_t group = 0; group < clos_.groups.size(); ++group) {
      if (!ReadMembers(group)) return std::nullopt;
    }
    return std::move(live_);
  }

 private:
  BundleState StateOf(std::span<const std::uint32_t> links) const {
    BundleState state;
    for (const std::uint32_t link : links) {
      const std::int64_t rate = capacities_[link];
      if (rate == 0) continue;
      ++state.live;
      if (state.rate_bps == 0) state.rate_bps = rate;
      state.has_one_rate = state.has_one_rate && state.rate_bps == rate;
    }
    return state;
  }

  bool TakeOnlyLeaf(std::uint32_t group) {
    live_.groups[group].leaves = {0};
    return true;
  }

  bool ReadUplinks(std::uint32_t group) {
    const BundledClos::Group& of = clos_.groups[group];
    live_.end_rates_bps.resize(clos_.group_of.size());
    std::vector<std::uint32_t> live_ends;
    for (const std::uint32_t end : of.ends) {
      const auto all = static_cast<std::uint32_t>(of.leaves.size()) * clos_.uplinks;
      const BundleState state =
          StateOf(std::span(clos_.end_links).subspan(clos_.first_uplink[end], all));
      if (!state.has_one_rate) return false;
      live_.end_rates_bps[end] = state.rate_bps;
      if (state.live > 0) live_ends.push_back(end);
    }
    for (std::uint32_t leaf = 0; leaf < of.leaves.size() && !live_ends.empty(); ++leaf) {
      const std::uint32_t live = StateOf(clos_.UplinksOf(live_ends.front(), leaf)).live;
      if (live != 0 && live != clos_.uplinks) return false;
      const bool is_alike = std::ranges::all_of(live_ends, [&](std::uint32_t end) {
        return StateOf(clos_.UplinksOf(end, leaf)).live == live;
      });
      if (!is_alike) return false;
      if (live > 0) live_.groups[group].leaves.push_back(leaf);
    }
    return true;
  }

  // Spines that some live leaf reaches.
  void FindSpines() {
    for (std::uint32_t spine = 0; spine < clos_.spines; ++spine) {
      bool is_live = false;
      for (std::size_t group = 0; group < clos_.groups.size() && !is_live; ++group) {
        is_live = std::ranges::any_of(live_.groups[group].leaves, [&](std::uint32_t leaf) {
          return StateOf(clos_.MembersOf(clos_.groups[group].first_leaf + leaf, spine)).live > 0;
        });
      }
      if (is_live) live_.spines.push_back(spine);
    }
  }

  bool ReadMembers(std::uint32_t group) {
    LiveBundles::Group& found = live_.groups[group];
    bool is_first = true;
    for (const std::uint32_t leaf : found.leaves) {
      for (const std::uint32_t spine : live_.spines) {
        const BundleState state =
            StateOf(clos_.MembersOf(clos_.groups[group].first_leaf + leaf, spine));
        if (std::exchange(is_first, false)) {
          found.members = state.live;
          found.rate_bps = state.rate_bps;
        }
        if (state.live != found.members) return false;
        if (!state.has_one_rate || state.rate_bps != found.rate_bps) return false;
      }
    }
    return true;
  }

  const BundledClos& clos_;
  std::span<const std::int64_t> capacities_;
  LiveBundles live_;
};

}  // namespace

std::optional<LiveBundles> FindLiveBundles(const BundledClos& clos,
                                           std::span<const std::int64_t> capacities) {
  return BundleReader(clos, capacities).Run();
}

}  // namespace espalier::controller
