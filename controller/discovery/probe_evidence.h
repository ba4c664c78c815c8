#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"

namespace espalier::discovery {

// The NIC of an agent, which sends and receives probes.
struct Endpoint {
  std::string host;
  std::string device;  // as the agent calls it; may be empty
  IpAddress address;
};
using EndpointIndex = std::uint32_t;

inline constexpr std::uint8_t kMostHops = 8;  // the highest TTL of probes

// What answered the probes of one source port from one endpoint to another, by TTL - 1.
struct Trace {
  enum class Hop : std::uint8_t { kNotAsked, kSilent, kAnswered };
  EndpointIndex source = 0;
  EndpointIndex destination = 0;
  std::uint16_t port = 0;
  std::array<Hop, kMostHops> hops{};
  std::array<IpAddress, kMostHops> responders{};

  bool IsAnswered(std::size_t hop) const { return hop < kMostHops && hops[hop] == Hop::kAnswered; }
};

// All that probes have shown of a fabric. Only what was asked is recorded, once for each probe, so
// an agent that invents answers cannot fill the memory, nor answer for another agent.
//
// Budget: kMostEndpoints, kMostTraces (some 220 bytes each), kMostResponders. Deterministic.
// Complexity: O(1) for each call. Thread safety: one thread.
class ProbeEvidence {
 public:
  static constexpr std::size_t kMostEndpoints = 65'536;
  static constexpr std::size_t kMostTraces = 1'000'000;
  static constexpr std::size_t kMostResponders = 262'144;

  // Returns the index of this endpoint, which never changes. An endpoint is known by its address.
  // Errors: kInvalidArgument if another host has the address, or it is none that a host may have;
  // kResourceExhausted for too many endpoints.
  Result<EndpointIndex> AddEndpoint(const Endpoint& endpoint);

  // The probe is about to be sent. Returns false if there is no room for it, or it was asked and
  // answered before.
  bool Ask(EndpointIndex source, EndpointIndex destination, std::uint16_t port, std::uint8_t ttl);
  // Records an answer. Returns false for a probe that was not asked, or was answered already.
  bool Answer(EndpointIndex source, EndpointIndex destination, std::uint16_t port, std::uint8_t ttl,
              const IpAddress& responder);

  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  // None of the endpoints has this address: kMostEndpoints.
  EndpointIndex FindEndpoint(const IpAddress& address) const;
  const std::vector<Trace>& traces() const { return traces_; }
  std::uint64_t probes() const { return probes_; }
  std::uint64_t answers() const { return answers_; }
  // Answers that nobody had asked for, or that exceeded the budget.
  std::uint64_t refused() const { return refused_; }

 private:
  struct Key {
    EndpointIndex source;
    EndpointIndex destination;
    std::uint16_t port;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };

  std::vector<Endpoint> endpoints_;
  std::unordered_map<IpAddress, EndpointIndex> by_address_;
  std::vector<Trace> traces_;
  std::unordered_map<Key, std::size_t, KeyHash> by_key_;
  std::unordered_map<IpAddress, std::uint32_t> responders_;  // number of answers
  std::uint64_t probes_ = 0;
  std::uint64_t answers_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace espalier::discovery
