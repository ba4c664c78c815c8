#include "deploy/lab/workload/phase_loads.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace espalier::traffic {
namespace {

using LeafOf = std::function<int(const std::string&)>;

// Flows from and to each leaf.
class Degrees {
 public:
  void Add(const Burst& burst, const LeafOf& leaf_of) {
    const int source = leaf_of(burst.source);
    const int destination = leaf_of(burst.destination);
    if (source == destination) return;
    max_ = std::max({max_, ++sent_[source], ++received_[destination]});
  }
  int max() const { return max_; }

 private:
  std::map<int, int> sent_;
  std::map<int, int> received_;
  int max_ = 0;
};

int DivideUp(int total, int parts) { return (total + parts - 1) / parts; }

}  // namespace

PhaseLoads BoundPhaseLoads(std::span<const PhasedJob> jobs, int spines, const LeafOf& leaf_of) {
  PhaseLoads loads;
  int matchings = 0;
  Degrees connections;
  for (const PhasedJob& job : jobs) {
    int most = 0;
    std::set<std::pair<std::string, std::string>> pairs;
    for (const Phase& phase : job.phases) {
      Degrees of_phase;
      for (const Burst& burst : phase.bursts) {
        of_phase.Add(burst, leaf_of);
        if (pairs.insert({burst.source, burst.destination}).second) {
          connections.Add(burst, leaf_of);
        } else {
          loads.are_phases_disjoint = false;
        }
      }
      most = std::max(most, of_phase.max());
    }
    matchings += most;
  }
  loads.worst_overlap = DivideUp(matchings, spines);
  loads.all_connections = DivideUp(connections.max(), spines);
  return loads;
}

}  // namespace espalier::traffic
