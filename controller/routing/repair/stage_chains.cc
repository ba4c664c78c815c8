#include "controller/routing/repair/stage_chains.h"

#include <utility>

namespace espalier::controller {
namespace {

constexpr int kMostTries = 400;  // chains for one subflow, on all tiers
constexpr std::size_t kLongestChain = 400;

}  // namespace

bool StageChains::Insert(std::uint32_t subflow) {
  on_chain_.resize(links_.size(), 0);
  scratch_.resize(view_.folded_clos()->tiers);
  tries_ = kMostTries;
  const std::size_t mark = links_.Mark();
  if (InsertAbove(subflow, 0, 0)) return true;
  links_.Undo(mark);
  return false;
}

bool StageChains::Finish(std::uint32_t subflow, std::uint32_t tier, std::uint32_t label) {
  if (BlockOf(subflow, true, tier + 1) != BlockOf(subflow, false, tier + 1)) {
    return InsertAbove(subflow, tier + 1, label);
  }
  const std::uint32_t from = view_.FoldedLeaf(links_.SourceOf(subflow));
  const std::uint32_t common = BlockOf(subflow, true, tier + 1);
  links_.Place(subflow, view_.folded_clos()->PathOf(from, common, label));
  return true;
}

bool StageChains::HasRoomAbove(std::uint32_t subflow, std::uint32_t tier,
                               std::uint32_t label) const {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  const std::uint32_t sender = BlockOf(subflow, true, tier + 1);
  const std::uint32_t receiver = BlockOf(subflow, false, tier + 1);
  if (sender == receiver) return true;
  const std::uint32_t width = clos.blocks[clos.blocks[sender].parent].width;
  bool can_send = false;
  bool can_receive = false;
  for (std::uint32_t top = label * width; top < (label + 1) * width; ++top) {
    can_send = can_send || links_.HasRoom(LinkOf(sender, true, top));
    can_receive = can_receive || links_.HasRoom(LinkOf(receiver, false, top));
  }
  return can_send && can_receive;
}

bool StageChains::InsertAbove(std::uint32_t subflow, std::uint32_t tier, std::uint32_t lower) {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  const std::uint32_t sender = BlockOf(subflow, true, tier);
  const std::uint32_t receiver = BlockOf(subflow, false, tier);
  const std::uint32_t width = clos.blocks[clos.blocks[sender].parent].width;
  auto& [at_sender, at_receiver, chains] = scratch_[tier];
  at_sender.clear();
  at_receiver.clear();
  for (std::uint32_t i = 0; i < width; ++i) {
    // Subflows begin with different tops, so that the first ones are not full for all.
    const std::uint32_t label = lower * width + (i + subflow) % width;
    const bool can_send = links_.HasRoom(LinkOf(sender, true, label));
    const bool can_receive = links_.HasRoom(LinkOf(receiver, false, label));
    if (can_send) at_sender.push_back(label);
    if (can_receive) at_receiver.push_back(label);
    if (!can_send || !can_receive) continue;
    const std::size_t mark = links_.Mark();
    if (Finish(subflow, tier, label)) return true;
    links_.Undo(mark);
  }
  for (std::size_t shift = 0; shift < at_receiver.size(); ++shift) {
    for (std::size_t i = 0; i < at_sender.size(); ++i) {
      const std::uint32_t x = at_sender[i];
      const std::uint32_t y = at_receiver[(i + shift) % at_receiver.size()];
      if (x == y) continue;
      if ((tries_ -= 2) < 0) return false;
      // One that frees the receiver's link to x, and one that frees the sender's link to y.
      const bool is_found[2] = {FindChain(receiver, false, tier, x, y, chains[0]),
                                FindChain(sender, true, tier, y, x, chains[1])};
      const bool sender_first = chains[1].size() < chains[0].size();
      for (const bool sends : {sender_first, !sender_first}) {
        const std::size_t end = sends ? 1 : 0;
        if (!is_found[end] || !HasRoomAbove(subflow, tier, sends ? y : x)) continue;
        const std::size_t mark = links_.Mark();
        const bool is_free =
            Flip(chains[end], tier) &&
            links_.HasRoom(sends ? LinkOf(sender, true, y) : LinkOf(receiver, false, x));
        if (is_free && Finish(subflow, tier, sends ? y : x)) return true;
        links_.Undo(mark);
      }
    }
  }
  return false;
}

bool StageChains::FindChain(std::uint32_t block, bool sends, std::uint32_t tier,
                            std::uint32_t label, std::uint32_t other, std::vector<Step>& chain) {
  // The label of this round is full at the block; one subflow takes the other one, which has room
  // at this block, or gets it by the step before.
  ++chains_;
  work_ += 2;
  chain.clear();
  std::uint32_t full = label;
  std::uint32_t instead = other;
  for (std::uint32_t link = LinkOf(block, sends, full); !links_.HasRoom(link);
       link = LinkOf(block, sends, full)) {
    std::uint32_t next = LimitedLinks::kNone;
    links_.ForEachOn(link, [&](std::uint32_t subflow) {
      if (on_chain_[subflow] == chains_) return true;
      next = subflow;
      return false;
    });
    if (next == LimitedLinks::kNone || chain.size() == kLongestChain) return false;
    on_chain_[next] = chains_;
    chain.push_back({next, instead});
    work_ += chain.size() % 4 == 0 ? 1 : 0;
    sends = !sends;
    block = BlockOf(next, sends, tier);
    std::swap(full, instead);
  }
  return true;
}

bool StageChains::Flip(const std::vector<Step>& chain, std::uint32_t tier) {
  work_ += 4 * static_cast<std::int64_t>(chain.size());
  for (const Step& step : chain) links_.Remove(step.subflow);
  for (const Step& step : chain) {
    // Above, chains may have taken what was free; here, tops are as the chain left them.
    if (!links_.HasRoom(LinkOf(BlockOf(step.subflow, true, tier), true, step.label)) ||
        !links_.HasRoom(LinkOf(BlockOf(step.subflow, false, tier), false, step.label)) ||
        !Finish(step.subflow, tier, step.label)) {
      return false;
    }
  }
  return true;
}

}  // namespace espalier::controller
