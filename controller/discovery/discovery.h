#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "controller/discovery/answer_pace.h"
#include "controller/discovery/discovered_fabric.h"
#include "controller/discovery/probe_choice.h"
#include "controller/discovery/probe_evidence.h"

namespace espalier::discovery {

// Discovers a fabric by batches of probes: the caller sends a batch, hands over the answers, ends
// the batch, and asks for the next one.
//
// A batch takes as long as its rate needs, but at least one second's worth of answers fits into it:
// no switch is asked for more than AnswerPace allows, as far as probes of one TTL spread evenly
// over the switches that answer at it. Hosts that start together are thus asked in turn.
//
// What was found stays: with endpoints that are added later, only what they show is probed.
// Deterministic. Thread safety: one thread.
class Discovery {
 public:
  static constexpr std::uint64_t kMostProbes = 4'000'000;
  static constexpr std::size_t kMostSentences = 64;  // of contradictions among endpoints

  explicit Discovery(const ProbeChoice::Options& options) : choice_(options) {}

  // An address of two hosts is a contradiction, and neither a reason to stop nor an endpoint.
  void AddEndpoint(const Endpoint& endpoint);

  // The probes to send now. Empty: all is found that probes can show. No batch may be open.
  std::vector<Ask> NextBatch();
  // An answer to a probe of the open batch or an earlier one.
  bool HandleAnswer(EndpointIndex source, EndpointIndex destination, std::uint16_t port,
                    std::uint8_t ttl, const IpAddress& responder);
  // The probes of the batch that were not answered by now stay unanswered.
  void EndBatch();

  const ProbeEvidence& evidence() const { return evidence_; }
  // As of the last round; with the contradictions among endpoints.
  const DiscoveredFabric& fabric() const { return fabric_; }
  std::size_t rounds() const { return rounds_; }
  // How long the batch should take to send.
  double batch_seconds() const { return batch_seconds_; }

 private:
  static constexpr int kMostRepeatedRounds = 4;

  void Infer();
  std::vector<Ask> TakeBatch();

  ProbeEvidence evidence_;
  ProbeChoice choice_;
  AnswerPace pace_;
  DiscoveredFabric fabric_;
  std::vector<std::string> endpoint_faults_;
  std::deque<Ask> round_;  // what is left of it
  std::size_t rounds_ = 0;
  double batch_seconds_ = 0;
  struct Count {
    std::size_t probes = 0;
    std::size_t answers = 0;
  };
  std::array<Count, kMostHops> batch_{};
};

}  // namespace espalier::discovery
