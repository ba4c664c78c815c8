#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fabric/paths.h"
#include "deploy/simulation/cluster.h"
#include "deploy/simulation/job_player.h"

namespace espalier::simulation {

// What can be wrong with a connection of a job at a time.
enum class Fault {
  kStandsStill,  // its packets are dropped although its leaves have a path whose links are up
  kUnroutable,   // the controller gives it no path although its leaves have a usable one
  kOtherPath,    // it does not take the path that the controller decided, whose links are up
};
constexpr std::size_t kFaults = 3;
std::string_view FaultName(Fault fault);  // "stands_still", ...

// Over the whole run.
struct FaultRecord {
  std::size_t most = 0;     // flows with the fault at one time
  Duration longest{};       // of one flow without a break
  std::size_t lasting = 0;  // flows that have had it for the last second of the run
};

// The direction of a link that carried the most busy connections at one time.
struct LoadedLink {
  std::string direction;  // "l17>leaf0"; empty: nothing was seen
  int connections = 0;
  TimePoint at;
};

// Looks at a cluster from outside, which sees both what was decided and what the fabric does.
// Thread safety: one thread. The references must outlive it.
class Observer {
 public:
  // A fault that lasts less is no violation: it takes a while to decide, push and apply.
  static constexpr Duration kTolerated = std::chrono::seconds(1);

  Observer(Cluster& cluster, const JobPlayer& player);

  // O(connections x hops).
  void LookAtLinks();
  // Compares decisions with routes. O(connections x paths of a pair).
  void LookAtPaths();

  const LoadedLink& most_loaded() const { return most_loaded_; }
  const FaultRecord& record(Fault fault) const { return records_[Index(fault)]; }
  // The faults that have lasted at the time of the last look, as sentences.
  std::vector<std::string> Violations() const;

 private:
  using FlowKey = std::pair<int, std::uint64_t>;  // host, number
  using Since = std::map<FlowKey, TimePoint>;

  static std::size_t Index(Fault fault) { return static_cast<std::size_t>(fault); }
  std::array<bool, kFaults> FaultsOf(const Cluster::FlowRef& flow);
  std::span<const fabric::Path> PathsOf(const Cluster::FlowRef& flow);
  std::string NameOf(const FlowKey& flow) const;

  Cluster& cluster_;
  const JobPlayer& player_;
  const fabric::PathTable paths_;
  LoadedLink most_loaded_;
  std::array<Since, kFaults> since_;
  std::array<FaultRecord, kFaults> records_;
  TimePoint last_look_;
};

}  // namespace espalier::simulation
