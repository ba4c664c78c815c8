#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/token_bucket.h"
#include "common/fabric/topology.h"
#include "controller/links/path_quality.h"

namespace espalier::controller {

struct SlowLinksOptions {
  // As many bad samples, at least two of them of one subflow in a row, make a link slow: those of
  // one direction, or of both if both are bad. A host also leaves a good path if its
  // acknowledgements are lost on the way back, which may be any. So paths that hosts left count
  // only if two subflows accuse the link, and at least `left_fraction` of all left paths take it:
  // what a slow link drives away has it in common, while lost acknowledgements hit paths of all
  // links.
  int evidence = 3;
  double left_fraction = 0.66;
  double bad_fraction = 0.5;  // more than this of the subflows on a link must be bad
  std::size_t siblings = 3;   // as many links of its tier must be measured and good
  // How long a link stays SLOW. Doubles with each relapse within `calm` of its return, up to
  // `longest`.
  Duration hold = std::chrono::seconds(30);
  Duration longest = std::chrono::minutes(10);
  Duration calm = std::chrono::minutes(10);
  // Limits of the links that are SLOW at the same time, in all and of a tier (at least one).
  std::size_t max_links = 8;
  double max_tier_fraction = 0.25;
  // The moves of flows that this causes in the long run. The flows of one link move together.
  double moves_per_second = 4;
  double burst = 16;
};

// Decides which links are SLOW: they carry packets, but clearly worse than their siblings
// (PathQuality). A link is SLOW if most subflows on one of its directions accuse it. Of the links
// of a bad path, the one with the highest part of bad subflows is blamed, and of several such links
// the one with the most, in both directions. What a blamed link explains is not held against
// others.
//
// Nothing is measured on a link that no flow uses, so a SLOW link is tried again after the hold,
// which doubles with each relapse (flap damping, RFC 2439).
//
// Complexity: Update is O(samples x hops x SLOW links). Deterministic: all times are arguments.
// Thread safety: none.
class SlowLinks {
 public:
  // `tiers`: for each link the number of its tier.
  SlowLinks(std::vector<std::uint32_t> tiers, TimePoint now, const SlowLinksOptions& options = {});

  struct Change {
    fabric::LinkId link;
    bool is_slow = false;
    std::string signs;  // of one of the bad subflows
    Duration hold{};    // how long it stays SLOW
  };
  // Takes the samples that PathQuality::Judge returned. `flows_on` counts the flows that would
  // leave a link.
  std::vector<Change> Update(std::span<const PathQuality::Judged* const> samples,
                             const std::function<std::size_t(fabric::LinkId)>& flows_on,
                             TimePoint now);
  bool IsSlow(fabric::LinkId link) const {
    const auto found = links_.find(link);
    return found != links_.end() && found->second.is_slow;
  }
  // Links that would be SLOW if it were not for the limits of SlowLinksOptions.
  std::size_t refused() const { return refused_; }

 private:
  struct Entry {
    bool is_slow = false;
    TimePoint until{};  // SLOW until then
    TimePoint last_change{};
    std::uint32_t relapses = 0;
  };
  struct Direction {
    std::size_t all = 0;  // subflows on it
    std::size_t bad = 0;  // that accuse it and are not explained
    int measured = 0;     // their bad samples in a row, added up
    int left = 0;         // the same of those whose hosts left the path
    std::size_t left_paths = 0;
    int longest = 0;
    const PathQuality::Judged* worst = nullptr;
  };

  // The direction to blame next; none if nothing is left to explain.
  std::optional<std::size_t> Blame(std::span<const PathQuality::Judged* const> accusers) const;
  // Whether there is enough evidence against this direction, given that against the opposite one.
  bool IsEnough(const Direction& here, const Direction& back) const;
  bool IsBad(const Direction& direction) const {
    return static_cast<double>(direction.bad) >
           options_.bad_fraction * static_cast<double>(direction.all);
  }
  void Count(std::span<const PathQuality::Judged* const> samples);
  bool HasRoom(fabric::LinkId link) const;
  bool HasGoodSiblings(fabric::LinkId link) const;
  Change GoSlow(fabric::LinkId link, const PathQuality::Judged& worst, TimePoint now);

  const std::vector<std::uint32_t> tiers_;
  const SlowLinksOptions options_;
  TokenBucket moves_;
  std::map<fabric::LinkId, Entry> links_;
  std::vector<Direction> directions_;  // by DirectedLink::Index, of one Update
  std::size_t left_paths_ = 0;         // that are not explained
  std::size_t refused_ = 0;
};

}  // namespace espalier::controller
