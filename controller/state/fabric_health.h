#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "controller/state/reach.h"
#include "controller/state/state.h"

namespace espalier::controller {

// How the fabric and its flows are, in one word and with the reasons for it.
struct FabricHealth {
  ReachCounts reach;
  std::int64_t links_down = 0;   // for whatever reason, links of NICs included
  std::int64_t links_lossy = 0;  // by tests of hosts
  std::int64_t links_awaiting_operator = 0;
  std::int64_t hosts = 0;  // of the topology, with a NIC at a switch
  std::int64_t hosts_without_agent = 0;
  std::int64_t flows_unsteered = 0;  // because operators do not want them steered
  std::int64_t flows_late = 0;       // State::Notices
  std::string late_flow;             // one of them
  std::string spraying;              // which switches do, in words
  std::set<std::string> sprayed_hosts;
  std::string poor_spread;                 // State::poor_spread, in words
  std::int64_t silent_feeds = 0;           // of link loads
  std::int64_t windows_held = 0;           // maintenance windows that would cut off flows
  std::vector<std::string> doubts;         // LinkTester::Doubts
  std::vector<std::string> dead_switches;  // that look dead, in words
  std::string steering;                    // SteeringRules::Describe

  enum class Word : std::uint8_t { kOk, kDegraded, kFailing };
  // Failing: packets of some flow do not get through. Degraded: something else is not as it should.
  Word word() const;
  // Sentences without a full stop, the worst first: "16 flows have no usable path". Empty if ok.
  std::vector<std::string> Reasons() const;
};
std::string_view HealthName(FabricHealth::Word word);  // "ok", "degraded", "failing"

// O(links + NICs), and with steering intents O(flows).
FabricHealth HealthOf(const State& state, const ReachCounts& reach,
                      std::size_t links_awaiting_operator, std::vector<std::string> doubts);

}  // namespace espalier::controller
