#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/edge_coloring.h"
#include "common/graph/preferred_colors.h"
#include "controller/routing/assignment.h"
#include "controller/routing/live_stages.h"

namespace espalier::controller {

// Computes the least maximum load of flows that may send unequal parts over their paths, on a
// folded Clos of any number of tiers: where 32 flows of a leaf meet 24 usable spines, 4/3, which no
// smaller number of equal parts reaches than three.
//
// Problem: a leaf has D flows for S usable tops (spines, or planes), and S does not divide D.
// Method: colour the flows properly with D colours, that is, divide them into D matchings. Lay the
// colours end to end on a line, which the tops share. Each colour then lies on one top or on two
// neighbours, which gives each flow its parts. With more tiers, each matching is coloured again
// between the blocks of the next tier, so that a block that is not narrower upwards sends at most
// one flow of it over each of its links.
// - kExact: each top has D / S of the line, and so has each link of a leaf. That takes
//   D + S - gcd(D, S) parts at a leaf of degree D, and no assignment of that load has fewer.
// - kHalves, kQuarters, kEighths (1/j): with D = q S + r, r blocks of j tops share q j + 1 colours
//   each, and every other top has q colours: r (j - 1) parts more than flows, the fewest for a load
//   of q + 1/j. Where r j > S, that is, where no assignment has such a load: kExact. Where r = 0,
//   no flow is divided.
// It is McNaughton's wrap-around rule (Scheduling with Deadlines and Loss Functions, 1959) on
// matchings. Minimality: in the graph of parts between the flows and tops of a leaf, a component of
// m flows and n tops has at least m + n - 1 edges, and m / n = D / S if all tops are full.
//
// Flows that cannot be divided are moved to colours that lie on one top, as far as exchanges of
// colours reach (graph::PreferredColors); one that is left takes the top on which more of its
// colour lies. kExact then takes the least load that any of the four rules gives.
//
// It applies if LiveStages does, a flow can be divided, D >= S, no more than
// EdgeColoring::kMaxColors flows meet at a leaf, and, for kExact, equal shares make a greater load.
// With kExact, flows of more than three subflows are first cut into equal pieces, so that they take
// more paths, if all can be divided. Shares are whole numbers of 1 / kLoadUnit, and so are loads: D
// / S is rounded up. It is a workspace. Thread safety: one thread.
class UnevenPaths {
 public:
  // How the tops share the colours.
  enum class Rule { kExact, kHalves, kQuarters, kEighths };

  explicit UnevenPaths(const FabricView& view) : view_(view), stages_(view) {}

  // Fills assignment.paths, shares and max_load; `first` must be set. False, without any change, if
  // it does not apply. `is_rigid`: by commodity, 1 if it cannot be divided unequally; empty: all
  // can. Those with one subflow cannot in any case. O(subflows) besides the colourings.
  bool Assign(std::span<const Commodity> commodities, Rule rule,
              std::span<const std::uint8_t> is_rigid, Assignment& assignment);

 private:
  static constexpr std::uint32_t kMaxTiers = 8;  // of a folded Clos

  // Neighbouring tops, and the colours that they share.
  struct Block {
    std::uint32_t first_top = 0;
    std::uint32_t tops = 1;
    std::uint32_t first_color = 0;
    std::uint32_t colors = 1;
  };
  // An equal piece of a flow. It has one colour, and on each top of its colour the same place among
  // the tops of the tiers above.
  struct Piece {
    std::uint32_t commodity = 0;
    bool is_rigid = false;  // it cannot be divided
    std::uint32_t color = 0;
    std::uint32_t group = 0;  // of the pieces that have the same colour and places so far
    std::array<std::uint16_t, kMaxTiers> places{};  // by tier; not used for the lowest
  };
  struct FlowPart {
    std::int32_t path = kNoPath;
    std::int64_t share = 0;
  };

  // Assign by one of the rules, on the stages that are built.
  bool AssignBy(Rule rule, std::span<const Commodity> commodities, Assignment& assignment);
  // Fills pieces_ with those of the part, and returns how many a leaf sends or receives at most.
  std::uint32_t CollectPieces(std::uint32_t part, std::span<const Commodity> commodities);
  // Lets the tops share the colours; false if that is no better than equal shares.
  bool LayOut(std::uint32_t degree, std::uint32_t tops, Rule rule);
  // Moves rigid pieces to colours that lie on one top.
  void PreferWholeColors(std::uint32_t leaves, std::uint32_t degree);
  bool LiesOnOneTop(std::uint32_t color) const;
  const Block& BlockOf(std::uint32_t color) const;
  // Colours the pieces, and chooses their places above the lowest tier.
  void Color(std::uint32_t part, std::span<const Commodity> commodities, std::uint32_t degree);
  void ColorTier(std::uint32_t part, std::span<const Commodity> commodities, std::uint32_t tier);
  // Appends the parts of a piece to flow_parts_.
  void AppendParts(std::uint32_t part, const Commodity& commodity, const Piece& piece);
  std::int32_t PathOf(std::uint32_t part, const Commodity& commodity, const Piece& piece,
                      std::uint32_t top) const;
  // Gives each subflow a path and a share: one for each part; those that are left over halve the
  // greatest.
  void FillSubflows(std::span<std::int32_t> paths, std::span<std::int64_t> shares);
  std::uint32_t LeafOf(std::uint32_t leaf) const;  // its number in its part
  // The tier of the lowest block that holds both ends.
  std::uint32_t HeightOf(const Commodity& commodity) const;

  const FabricView& view_;
  LiveStages stages_;
  graph::EdgeColoring coloring_;
  graph::PreferredColors preferred_colors_;
  std::vector<std::uint8_t> is_rigid_;  // by commodity
  bool has_rigid_ = false;              // one that is not within a leaf
  std::uint32_t least_subflows_ = 2;    // of a flow
  std::uint32_t pieces_per_flow_ = 1;
  std::vector<Piece> pieces_;  // those of a flow are neighbours
  std::vector<Block> blocks_;
  std::vector<FlowPart> flow_parts_;         // of one flow
  std::vector<graph::BipartiteEdge> edges_;  // scratch
  std::vector<std::uint32_t> order_;         // scratch: indices of pieces
};

}  // namespace espalier::controller
