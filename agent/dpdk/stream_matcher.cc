#include "agent/dpdk/stream_matcher.h"

#include <bit>
#include <cstring>

namespace espalier::dpdk {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

bool AreSameHosts(const FlowKey& a, const FlowKey& b) {
  return ((a.number ^ b.number) & 0xFF) == 0 && std::memcmp(a.addresses, b.addresses, 32) == 0;
}

void StreamMatcher::Begin(const FlowEvent& first, std::span<const Candidate> candidates,
                          TimePoint now) {
  if (candidates.empty() || candidates.size() > AckMatch::kMostCandidates || Has(first.key)) return;
  std::vector<const std::atomic<std::uint64_t>*> next;
  Match match{.began = now, .first = first, .data = {}};
  for (const Candidate& candidate : candidates) {
    next.push_back(candidate.next);
    match.data.push_back(candidate.data);
  }
  const auto slot = table_.AddMatch(first.key, first.flow_kind, next);
  if (!slot) return;
  match.slot = *slot;
  matches_.emplace(first.key, std::move(match));
  changed_ = true;
}

StreamMatcher::Matches::iterator StreamMatcher::End(Matches::iterator match) {
  table_.RemoveMatch(match->second.slot);
  changed_ = true;
  return matches_.erase(match);
}

void StreamMatcher::Exclude(const FlowKey& data) {
  for (auto& [key, match] : matches_) {
    for (std::size_t i = 0; i < match.data.size(); ++i) {
      if (match.data[i] == data) table_.match(match.slot).possible.fetch_and(~(1U << i), kRelaxed);
    }
  }
}

void StreamMatcher::EndBetween(const FlowKey& data) {
  for (auto match = matches_.begin(); match != matches_.end();) {
    match = AreSameHosts(match->second.data.front(), data) ? End(match) : std::next(match);
  }
}

std::vector<StreamMatcher::Found> StreamMatcher::TakeFound(
    TimePoint now, const std::function<bool(const FlowKey& data)>& is_ready) {
  std::vector<Found> found;
  for (auto at = matches_.begin(); at != matches_.end();) {
    const Match& match = at->second;
    const std::uint32_t possible = table_.match(match.slot).possible.load(kRelaxed);
    const std::uint32_t seen = table_.match(match.slot).seen.load(kRelaxed);
    const Duration age = now - match.began;
    const bool is_over = possible == 0 || age >= kLongest || (seen == 0 && age >= kUnused);
    const bool is_decided = std::has_single_bit(possible) && age >= kSettle && seen >= kLeastSeen;
    const FlowKey data =
        is_decided ? match.data[static_cast<std::size_t>(std::countr_zero(possible))] : FlowKey{};
    if (is_decided && is_ready(data)) {
      found.push_back({.data = data,
                       .acknowledgements = at->first,
                       .own_port = match.first.own_port,
                       .vlan_tags = match.first.vlan_tags});
      at = End(at);
      Exclude(data);
      continue;
    }
    at = is_over ? End(at) : std::next(at);
  }
  return found;
}

}  // namespace espalier::dpdk
