#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/laminar_split.h"
#include "controller/routing/model/assignment.h"

namespace espalier::controller {

// A folded Clos as stages, from the leaves upwards: which tops above a tier are usable, provided
// that they are the same ones for all blocks of the tier that send or receive. Dead planes and dead
// cores are therefore no obstacle, a dead link of one leaf is. It is a workspace. Thread safety:
// one thread.
class LiveStages {
 public:
  // One stage of one part: what LaminarTier refers to.
  struct Stage {
    std::vector<std::uint32_t> block_of;
    std::vector<std::uint32_t> first_above;
    std::vector<std::uint32_t> labels;  // by usable top above: its label; empty: all are usable
  };
  struct Part {
    std::vector<Stage> stages;
    std::vector<graph::LaminarTier> tiers;
    std::vector<std::uint32_t> leaf_numbers;  // by leaf of the part: its number in the fabric
    std::vector<std::uint32_t> commodities;   // indices; unused if there is one part
    bool in_use = false;
  };

  explicit LiveStages(const FabricView& view) : view_(view) {}

  // False, with the parts in any state, if the fabric is no folded Clos, if usable links of a tier
  // of one part differ in rate, or if blocks in use do not reach the same tops. `is_ideal`: as if
  // all links were up and those of a tier had one rate. O(commodities + links).
  bool Build(std::span<const Commodity> commodities, bool is_ideal);

  std::span<Part> parts() { return parts_; }
  std::span<const Part> parts() const { return parts_; }

 private:
  void MarkBlocksInUse(std::span<const Commodity> commodities);
  bool BuildStages(std::uint32_t part);
  // Finds which tops above a tier all blocks in use reach; false if they differ.
  bool FindLiveTops(std::uint32_t part, std::uint32_t tier);

  const FabricView& view_;
  std::vector<Part> parts_;
  bool is_ideal_ = false;             // all links count as up
  std::vector<std::uint8_t> in_use_;  // by block: bit 0: it sends, bit 1: it receives
};

}  // namespace espalier::controller
