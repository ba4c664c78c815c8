#include "controller/offline/simulation/fluid_network.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"

namespace espalier::offline {
namespace {

// Rates whose relative difference is smaller count as equal.
constexpr double kSameRate = 1e-12;
// Nanoseconds that rounding may leave of a completed transfer.
constexpr double kRounding = 1e-6;

}  // namespace

FluidNetwork::FluidNetwork(std::vector<double> capacities) : links_(capacities.size()) {
  for (std::size_t i = 0; i < capacities.size(); ++i) links_[i].capacity = capacities[i];
}

FluidNetwork::Transfer FluidNetwork::Add(std::span<const std::uint32_t> links, double weight,
                                         double bits) {
  ESPALIER_CHECK(!links.empty() && weight > 0 && bits > 0);
  Transfer transfer = static_cast<Transfer>(transfers_.size());
  if (unused_.empty()) {
    transfers_.emplace_back();
  } else {
    transfer = unused_.back();
    unused_.pop_back();
  }
  Flow& flow = transfers_[transfer];
  flow.links.assign(links.begin(), links.end());
  flow.places.resize(links.size());
  flow.weight = weight;
  flow.rate = 0;
  flow.left = bits;
  flow.is_new = true;
  for (std::uint32_t i = 0; i < links.size(); ++i) {
    Link& link = links_[links[i]];
    flow.places[i] = static_cast<std::uint32_t>(link.transfers.size());
    link.transfers.emplace_back(transfer, i);
    link.weight += weight;
    MarkChanged(links[i]);
  }
  return transfer;
}

double FluidNetwork::Left(Transfer transfer, std::int64_t now) const {
  const Flow& flow = transfers_[transfer];
  if (flow.is_new) return flow.left;
  return std::max(flow.left - flow.rate * static_cast<double>(now - flow.since), 0.0);
}

double FluidNetwork::Remove(Transfer transfer, std::int64_t now) {
  const double left = Left(transfer, now);
  Unlink(transfer);
  return left;
}

void FluidNetwork::MarkChanged(std::uint32_t link) {
  if (links_[link].is_changed) return;
  links_[link].is_changed = true;
  changed_links_.push_back(link);
}

void FluidNetwork::Unlink(Transfer transfer) {
  Flow& flow = transfers_[transfer];
  for (std::size_t i = 0; i < flow.links.size(); ++i) {
    Link& link = links_[flow.links[i]];
    link.weight -= flow.weight;
    const auto [moved, place_in_moved] = link.transfers.back();
    link.transfers[flow.places[i]] = {moved, place_in_moved};
    transfers_[moved].places[place_in_moved] = flow.places[i];
    link.transfers.pop_back();
    if (link.transfers.empty()) link.weight = 0;  // clears rounding errors
    MarkChanged(flow.links[i]);
  }
  flow.links.clear();
  ++flow.version;
  unused_.push_back(transfer);
}

void FluidNetwork::Settle(std::int64_t now) {
  if (changed_links_.empty()) return;
  CollectPart();
  FillPart();
  for (const Transfer transfer : part_transfers_) {
    SetRate(transfer, transfers_[transfer].new_rate, now);
  }
}

// Collects all links and transfers that a chain of shared links connects to a changed link.
void FluidNetwork::CollectPart() {
  ++part_;
  part_links_.clear();
  part_transfers_.clear();
  const auto visit_link = [this](std::uint32_t index) {
    Link& link = links_[index];
    if (link.seen == part_ || link.transfers.empty()) return;
    link.seen = part_;
    link.left = link.capacity;
    link.open_weight = link.weight;
    part_links_.push_back(index);
  };
  for (const std::uint32_t index : changed_links_) {
    links_[index].is_changed = false;
    visit_link(index);
  }
  changed_links_.clear();
  for (std::size_t i = 0; i < part_links_.size(); ++i) {
    for (const auto& [transfer, place] : links_[part_links_[i]].transfers) {
      Flow& flow = transfers_[transfer];
      if (flow.seen == part_) continue;
      flow.seen = part_;
      flow.is_fixed = false;
      part_transfers_.push_back(transfer);
      for (const std::uint32_t link : flow.links) visit_link(link);
    }
  }
}

// Water-filling: raises the rates of all open transfers together, each in proportion to its weight.
// The links that fill up first fix the rates of their transfers; the rest continues on the
// remaining capacity.
void FluidNetwork::FillPart() {
  while (!part_links_.empty()) {
    double level = std::numeric_limits<double>::infinity();
    for (const std::uint32_t index : part_links_) {
      const Link& link = links_[index];
      level = std::min(level, link.left / link.open_weight);
    }
    level = std::max(level, 0.0);
    const double full = level * (1 + kSameRate);
    for (const std::uint32_t index : part_links_) {
      const Link& link = links_[index];
      if (link.open_weight <= 0 || link.left / link.open_weight > full) continue;
      for (const auto& [transfer, place] : link.transfers) {
        if (!transfers_[transfer].is_fixed) Fix(transfer, level);
      }
    }
    std::erase_if(part_links_, [this](std::uint32_t i) { return links_[i].open_weight <= 0; });
  }
}

void FluidNetwork::Fix(Transfer transfer, double level) {
  Flow& flow = transfers_[transfer];
  flow.is_fixed = true;
  flow.new_rate = level * flow.weight;
  for (const std::uint32_t index : flow.links) {
    Link& link = links_[index];
    link.left -= flow.new_rate;
    link.open_weight -= flow.weight;
    if (link.open_weight < kSameRate * link.weight) link.open_weight = 0;
  }
}

void FluidNetwork::SetRate(Transfer transfer, double rate, std::int64_t now) {
  Flow& flow = transfers_[transfer];
  if (!flow.is_new) {
    if (std::abs(rate - flow.rate) <= kSameRate * flow.rate) return;
    flow.left = std::max(0.0, flow.left - flow.rate * static_cast<double>(now - flow.since));
  }
  flow.is_new = false;
  flow.rate = rate;
  flow.since = now;
  ++flow.version;
  if (rate <= 0) return;  // it makes no progress until a change
  const double duration = std::ceil(flow.left / rate - kRounding);
  if (duration > 1e18) return;
  ends_.push({now + static_cast<std::int64_t>(duration), transfer, flow.version});
}

bool FluidNetwork::IsOutdated(const End& end) const {
  return transfers_[end.transfer].version != end.version;
}

std::optional<std::int64_t> FluidNetwork::NextEnd() {
  while (!ends_.empty() && IsOutdated(ends_.top())) ends_.pop();
  if (ends_.empty()) return std::nullopt;
  return ends_.top().time;
}

std::vector<FluidNetwork::Transfer> FluidNetwork::TakeEnded(std::int64_t now) {
  std::vector<Transfer> ended;
  while (NextEnd().value_or(now + 1) <= now) {
    ended.push_back(ends_.top().transfer);
    ends_.pop();
    Unlink(ended.back());
  }
  std::ranges::sort(ended);
  return ended;
}

}  // namespace espalier::offline
