#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// Keeps which subflows are on each link of a folded Clos, and a limit for each link; all changes
// can be undone. Subflows have one share and are numbered as Assignment::paths. O(tiers) for a
// change, and O(subflows on the link) to take one off. Thread safety: one thread.
class LimitedLinks {
 public:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  explicit LimitedLinks(const FabricView& view) : view_(view) {}

  // Takes the subflows of these commodities, which must have equally many each, without paths. No
  // link shall carry more than `limit`, with the base loads (by directed link; empty: none).
  void Reset(std::span<const Commodity> commodities, const Load& limit,
             std::span<const std::int64_t> base_loads);

  std::uint32_t size() const { return static_cast<std::uint32_t>(sources_.size()); }
  std::uint32_t SourceOf(std::uint32_t subflow) const { return sources_[subflow]; }
  std::uint32_t DestinationOf(std::uint32_t subflow) const { return destinations_[subflow]; }
  std::int32_t PathOf(std::uint32_t subflow) const { return paths_[subflow]; }
  std::span<const std::int64_t> loads() const { return loads_; }
  bool HasRoom(std::uint32_t link) const { return loads_[link] + share_ <= limits_[link]; }

  // Calls visit(subflow) for those on a link, the latest first, until it returns false.
  template <typename Visitor>
  void ForEachOn(std::uint32_t link, const Visitor& visit) const {
    for (std::uint32_t hop = first_on_[link]; hop != kNone; hop = next_on_[hop]) {
      if (!visit(hop / most_hops_)) return;
    }
  }

  // Puts a subflow without a path on one, whatever the limits, or takes it off its path.
  void Place(std::uint32_t subflow, std::int32_t path);
  // False, without any change, if some link has no room.
  bool PlaceIfRoom(std::uint32_t subflow, std::int32_t path);
  void Remove(std::uint32_t subflow);

  // All changes since a call of Mark are undone by Undo with its result. Forget ends that.
  std::size_t Mark() const { return changes_.size(); }
  void Undo(std::size_t mark);
  void Forget() { changes_.clear(); }

 private:
  void PutOn(std::uint32_t subflow, std::int32_t path);
  void PutOnLinks(std::uint32_t subflow, std::int32_t path);  // links_
  void TakeOff(std::uint32_t subflow);

  const FabricView& view_;
  std::int64_t share_ = 0;
  std::uint32_t most_hops_ = 0;
  std::vector<std::uint32_t> sources_;  // by subflow: leaf
  std::vector<std::uint32_t> destinations_;
  std::vector<std::int32_t> paths_;
  std::vector<std::int64_t> loads_;      // by link
  std::vector<std::int64_t> limits_;     // by link
  std::vector<std::uint32_t> first_on_;  // by link: a hop, that is, subflow * most_hops_ + place
  std::vector<std::uint32_t> next_on_;   // by hop: the next one on its link
  std::vector<std::uint32_t> hops_;      // by hop: its link; kNone after the last of a path
  std::vector<std::uint32_t> links_;     // scratch
  std::vector<std::pair<std::uint32_t, std::int32_t>> changes_;  // a subflow and its path before
};

}  // namespace espalier::controller
