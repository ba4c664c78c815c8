#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "common/fabric/paths.h"
#include "common/fabric/topology.h"

namespace espalier::fabric {

// A folded Clos of any number of tiers: a leaf-spine fabric, a fat-tree, rails, spine planes.
// Tiers are PathTable's levels here: NICs with several uplinks are its leaves, and the switches
// that they are linked to its tier 1.
//
// Tier 0 holds the leaves. A block of tier t is a connected part of the switches of tiers 0 to t: a
// leaf, a pod, the whole fabric. It consists of blocks of tier t - 1, its children, and of switches
// of tier t, its tops. The tops of a block are numbered by labels such that equal labels of its
// children belong together: the top with label l is linked to the top with label l / width of every
// child, and to nothing else below, by one link in each direction. In a fat-tree the label of an
// aggregation switch is its plane, and that of a core switch is plane * width + its place in the
// plane.
//
// A label of the lowest block that holds two leaves is therefore a path between them, and every
// shortest path is such a label. A fabric may consist of several such parts, without paths between
// them (rails with spines of their own). Arrays are as large as the number of links. All calls are
// O(tiers). It is a value; it does not change with link states.
struct FoldedClos {
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  struct Block {
    std::uint32_t tier = 0;
    std::uint32_t part = 0;        // the top block above it, counted from 0
    std::uint32_t number = 0;      // among the blocks of its tier in its part
    std::uint32_t parent = kNone;  // kNone: it is a top block
    std::uint32_t place = 0;       // among the children of its parent
    std::uint32_t children = 0;    // 0 for a leaf
    std::uint32_t width = 1;       // tops that are linked to one top of a child
    std::uint32_t labels = 1;      // its tops
    std::uint32_t first_link = 0;  // in up and down
    std::uint32_t first_top = 0;   // in tops, rank and label_at
  };

  std::uint32_t leaves = 0;
  std::uint32_t tiers = 0;
  std::uint32_t parts = 0;
  bool in_file_order = true;        // labels of all blocks are in file order: the path is the label
  std::vector<Block> blocks;        // leaves in file order, then tier by tier
  std::vector<NodeId> tops;         // by block and label
  std::vector<std::uint32_t> rank;  // place in file order among the `width` tops of its plane
  std::vector<std::uint32_t> label_at;  // by block, plane and rank: label % width
  // DirectedLink::Index by block, label and child: from the child's top, and to it.
  std::vector<std::uint32_t> up;
  std::vector<std::uint32_t> down;
  std::vector<std::uint32_t> part_blocks;  // the blocks part by part, those of each ascending
  std::vector<std::uint32_t> part_begin;   // by part, in part_blocks; one more at the end
  std::vector<std::int32_t> leaf_of;       // by node; -1: it is no leaf
  std::vector<std::uint32_t> ancestors;    // by leaf and tier; kNone above its top block

  std::span<const std::uint32_t> BlocksOf(std::uint32_t part) const {
    return std::span(part_blocks)
        .subspan(part_begin[part], part_begin[part + 1] - part_begin[part]);
  }
  std::uint32_t Ancestor(std::uint32_t leaf, std::uint32_t tier) const {
    return ancestors[std::size_t{leaf} * tiers + tier];
  }
  // The lowest block that holds both leaves, or kNone.
  std::uint32_t CommonBlock(std::uint32_t a, std::uint32_t b) const;
  // The link over which a block's tops reach its parent's top of this label, and back.
  std::uint32_t UpLink(const Block& block, std::uint32_t label) const {
    return up[LinkAt(block, label)];
  }
  std::uint32_t DownLink(const Block& block, std::uint32_t label) const {
    return down[LinkAt(block, label)];
  }

  // Convert a label of CommonBlock to an index into PathTable::Between, and back.
  std::int32_t PathOf(std::uint32_t source, std::uint32_t common, std::uint32_t label) const;
  std::uint32_t LabelOf(std::uint32_t source, std::uint32_t common, std::int32_t path) const;
  // Appends the directed links of the path of this label of CommonBlock, from source to
  // destination.
  void AppendLinks(std::uint32_t source, std::uint32_t destination, std::uint32_t common,
                   std::uint32_t label, std::vector<std::uint32_t>& links) const;

 private:
  std::size_t LinkAt(const Block& block, std::uint32_t label) const {
    const Block& parent = blocks[block.parent];
    return parent.first_link + std::size_t{label} * parent.children + block.place;
  }
};

// The error of RecognizeFoldedClos for a fabric without any link between switches.
inline constexpr std::string_view kNoSwitchLinks = "it has no links between switches";

// Recognises a folded Clos in O(links x tiers), by the tiers of `paths`, whatever the order of the
// file and the states of the links. Blocks of one part may have different numbers of children, but
// all have the same widths. The error says in one clause why the fabric is none: links within a
// tier or across tiers, parallel or missing links, NICs above the leaves, pods or planes that
// differ, more than 8 tiers, or more than PathTable::kMaxPathsPerPair paths between two leaves.
tl::expected<FoldedClos, std::string> RecognizeFoldedClos(const Topology& topology,
                                                          const PathTable& paths);

}  // namespace espalier::fabric
