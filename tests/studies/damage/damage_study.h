#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/routing/model/assignment.h"
#include "tests/studies/damage/damaged_fabric.h"

namespace espalier::offline {

// Studies what path sets are worth on a damaged fabric, by simulation. All traffic is one transfer
// of every NIC, which lasts `seconds` if it is alone. Times in results are relative to that.
struct DamageOptions {
  double seconds = 1;
  // After a link has failed: when hosts go to their standbys, and when the controller takes the
  // link out of service.
  double hosts_after_ms = 60;
  double controller_after_ms = 350;
  double failure_at = 0.5;  // part of `seconds`
  int jobs = 4;             // rings
  std::uint64_t seed = 1;
  std::function<bool()> is_cancelled = [] { return false; };
};

// Of a set: so many paths.
constexpr int kMostPaths = static_cast<int>(controller::kMaxSubflows);

enum class Traffic : std::uint8_t { kPermutation, kRings };
std::string_view TrafficName(Traffic traffic);  // "permutation", "rings"

// Damage that is known from the start. The slowest flow of sets of `paths`, by how the bytes are
// dealt out: equal shares, the shares that the controller computes, or by progress.
struct KnownDamage {
  Traffic traffic = Traffic::kPermutation;
  Damage damage = Damage::kNone;
  int paths = 1;     // of the largest set: no more than the fabric has
  double bound = 1;  // no division of the flows has a faster slowest one
  double equal = 0;
  double weights = 0;
  double progress = 0;
};

// A link that dies in the middle of a permutation.
struct FailureReaction {
  std::string name;             // "nobody", "hosts_alone", "controller", "recompute", "both"
  std::int64_t unfinished = 0;  // flows that never end
  double slowest = 0;           // of the others
};
struct Failure {
  int paths = 1;
  bool by_progress = false;
  double bound = 1;  // if all knew at once, and flows could be divided at will
  std::vector<FailureReaction> reactions;
};

// The loads of links after hosts have gone to their standbys, and the controller has done nothing,
// over all failures of single links and spines: the greatest, beside what the controller tells
// before (SteeredSets::PromisedLoad) and the least that a division of all flows could reach.
struct ShiftedLoads {
  int paths = 1;
  double before = 0;    // the greatest load of a link without failure
  double promised = 0;  // for the worst of these failures
  struct Worst {
    std::int64_t failures = 0;
    double load = 0;
    double bound = 0;       // of the failure with the greatest ratio to its bound
    double over_bound = 0;  // this ratio
    double mean_over_bound = 0;
    std::int64_t without_standby = 0;  // paths that hosts could not leave, over all failures
  };
  Worst links;
  Worst switches;
};

// Runs studies on one fabric. Errors: those of MakePermutation and MakeRings; kFailedPrecondition
// if a flow has no path; kResourceExhausted when cancelled. Deterministic by the seed.
class DamageStudy {
 public:
  // The fabric is whole; `link` is damaged.
  DamageStudy(fabric::Topology topology, fabric::LinkId link, DamageOptions options)
      : topology_(std::move(topology)), link_(link), options_(std::move(options)) {}

  std::size_t nics() const;
  // How many paths the largest set can have: those of a flow of the permutation, at most
  // kMostPaths.
  int LargestSet() const;
  Result<KnownDamage> RunKnown(Traffic traffic, Damage damage, int paths) const;
  Result<std::vector<Failure>> RunFailure(int paths) const;  // static, by progress
  Result<ShiftedLoads> RunShiftedLoads(int paths) const;

 private:
  Result<Workload> BuildWorkload(const fabric::Topology& topology, Traffic traffic, int jobs) const;
  // The links that fail together, by LinkId: each link between switches alone, or each switch above
  // the leaves.
  std::vector<std::vector<bool>> LinkFailures() const;
  std::vector<std::vector<bool>> SwitchFailures() const;
  // Of a flow: the slowest NIC limits it.
  double BitsOf(const Workload& workload) const;
  std::int64_t TransferNs() const;

  fabric::Topology topology_;
  fabric::LinkId link_;
  DamageOptions options_;
};

}  // namespace espalier::offline
