#include "controller/discovery/discovery.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "controller/discovery/fabric_inference.h"

namespace espalier::discovery {

void Discovery::AddEndpoint(const Endpoint& endpoint) {
  const auto added = evidence_.AddEndpoint(endpoint);
  if (added || endpoint_faults_.size() >= kMostSentences) return;
  if (std::ranges::find(endpoint_faults_, added.error().message) == endpoint_faults_.end()) {
    endpoint_faults_.push_back(added.error().message);
  }
}

void Discovery::Infer() {
  fabric_ = InferFabric(evidence_);
  fabric_.contradictions.insert(fabric_.contradictions.begin(), endpoint_faults_.begin(),
                                endpoint_faults_.end());
}

std::vector<Ask> Discovery::NextBatch() {
  std::vector<Ask> batch;
  batch_ = {};
  // A round whose probes were all answered before shows nothing: the next one is chosen.
  for (int i = 0; i < kMostRepeatedRounds && batch.empty(); ++i) {
    if (round_.empty()) {
      Infer();
      if (evidence_.probes() >= kMostProbes) return {};
      std::vector<Ask> round = choice_.NextRound(evidence_, fabric_);
      if (round.empty()) return {};
      round_.assign(std::make_move_iterator(round.begin()), std::make_move_iterator(round.end()));
      ++rounds_;
    }
    batch = TakeBatch();
  }
  return batch;
}

std::vector<Ask> Discovery::TakeBatch() {
  std::array<double, kMostHops> room{};
  for (std::size_t hop = 0; hop < kMostHops; ++hop) {
    const std::size_t answering = std::max<std::size_t>(fabric_.answering[hop], 1);
    room[hop] = pace_.PerSecondAndSwitch(hop) * static_cast<double>(answering);
  }
  std::vector<Ask> batch;
  while (!round_.empty()) {
    Ask& next = round_.front();
    const bool has_room = std::ranges::all_of(next.ttls, [&](std::uint8_t ttl) {
      return static_cast<double>(batch_[ttl - 1U].probes) + 1 <= room[ttl - 1U];
    });
    if (!has_room && !batch.empty()) break;
    std::erase_if(next.ttls, [&](std::uint8_t ttl) {
      return !evidence_.Ask(next.source, next.destination, next.port, ttl);
    });
    for (const std::uint8_t ttl : next.ttls) ++batch_[ttl - 1U].probes;
    if (!next.ttls.empty()) batch.push_back(std::move(next));
    round_.pop_front();
  }
  batch_seconds_ = 0;
  for (std::size_t hop = 0; hop < kMostHops; ++hop) {
    batch_seconds_ = std::max(batch_seconds_, static_cast<double>(batch_[hop].probes) / room[hop]);
  }
  return batch;
}

bool Discovery::HandleAnswer(EndpointIndex source, EndpointIndex destination, std::uint16_t port,
                             std::uint8_t ttl, const IpAddress& responder) {
  if (!evidence_.Answer(source, destination, port, ttl, responder)) return false;
  ++batch_[ttl - 1U].answers;
  return true;
}

void Discovery::EndBatch() {
  for (std::size_t hop = 0; hop < kMostHops; ++hop) {
    pace_.HandleBatch(hop, batch_[hop].probes, batch_[hop].answers);
  }
}

}  // namespace espalier::discovery
