#include "controller/routing/stage_chains.h"

#include <utility>

namespace espalier::controller {
namespace {

constexpr int kMostTries = 400;  // chains for one subflow, on all tiers
constexpr std::size_t kLongestChain = 400;

}  // namespace

std::uint32_t StageChains::LinkOf(std::uint32_t block, bool sends, std::uint32_t label) const {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  return sends ? clos.UpLink(clos.blocks[block], label) : clos.DownLink(clos.blocks[block], label);
}

std::uint32_t StageChains::BlockOf(std::uint32_t subflow, bool sends, std::uint32_t tier) const {
  const std::uint32_t leaf = sends ? links_.SourceOf(subflow) : links_.DestinationOf(subflow);
  return view_.folded_clos()->Ancestor(view_.FoldedLeaf(leaf), tier);
}

bool StageChains::Insert(std::uint32_t subflow) {
  on_chain_.resize(links_.size(), 0);
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

bool StageChains::InsertAbove(std::uint32_t subflow, std::uint32_t tier, std::uint32_t lower) {
  const fabric::FoldedClos& clos = *view_.folded_clos();
  const std::uint32_t sender = BlockOf(subflow, true, tier);
  const std::uint32_t receiver = BlockOf(subflow, false, tier);
  const std::uint32_t width = clos.blocks[clos.blocks[sender].parent].width;
  std::vector<std::uint32_t> at_sender;
  std::vector<std::uint32_t> at_receiver;
  for (std::uint32_t label = lower * width; label < (lower + 1) * width; ++label) {
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
      for (const bool sends : {false, true}) {
        if (--tries_ < 0) return false;
        const std::size_t mark = links_.Mark();
        const bool is_free =
            sends ? Flip(sender, true, tier, y, x) : Flip(receiver, false, tier, x, y);
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
  std::uint32_t full = label;
  std::uint32_t instead = other;
  while (!links_.HasRoom(LinkOf(block, sends, full))) {
    std::uint32_t next = LimitedLinks::kNone;
    links_.ForEachOn(LinkOf(block, sends, full), [&](std::uint32_t subflow) {
      if (on_chain_[subflow] == chains_) return true;
      next = subflow;
      return false;
    });
    if (next == LimitedLinks::kNone || chain.size() == kLongestChain) return false;
    on_chain_[next] = chains_;
    chain.push_back({next, instead});
    sends = !sends;
    block = BlockOf(next, sends, tier);
    std::swap(full, instead);
  }
  return true;
}

bool StageChains::Flip(std::uint32_t block, bool sends, std::uint32_t tier, std::uint32_t label,
                       std::uint32_t other) {
  std::vector<Step> chain;
  const bool is_found = FindChain(block, sends, tier, label, other, chain);
  work_ += 2 + static_cast<std::int64_t>(is_found ? 4 * chain.size() : chain.size() / 4);
  if (!is_found) return false;
  for (const Step& step : chain) links_.Remove(step.subflow);
  for (const Step& step : chain) {
    // Above, chains may have taken what was free; here, tops are as the chain left them.
    if (!links_.HasRoom(LinkOf(BlockOf(step.subflow, true, tier), true, step.label)) ||
        !links_.HasRoom(LinkOf(BlockOf(step.subflow, false, tier), false, step.label)) ||
        !Finish(step.subflow, tier, step.label)) {
      return false;
    }
  }
  return links_.HasRoom(LinkOf(block, sends, label));
}

}  // namespace espalier::controller
