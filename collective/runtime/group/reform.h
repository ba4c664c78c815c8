#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collective/runtime/group/communicator.h"
#include "common/base/result.h"

namespace espalier::runtime {

// What a group that has been formed again remembers of the first one.
struct Lineage {
  std::string base;          // name of the first group
  std::uint32_t round = 0;   // of the next attempt to form it again; the same on all ranks
  std::vector<int> numbers;  // of the ranks, in the first group

  // Of a group that has not been formed again.
  static Lineage Of(const Communicator& group);
};

struct ReformOptions {
  // How long to wait for ranks that have not come and are not known to have ended. 0: the group's
  // timeout.
  std::chrono::milliseconds patience{0};
  // The group is not formed again with fewer ranks.
  int least = 1;
};

struct Reformed {
  std::unique_ptr<Communicator> group;
  std::vector<int> lost;  // the ranks of the old group that are not in the new one
  Lineage lineage;
};

// Forms a group of the ranks that are left after a failure, so that they can go on. All living
// ranks of the old group call it; they keep their order and are numbered from 0 on.
//
// Problem: ranks may die at any time, also while the group is formed again, and no rank may form a
// group without the others. Idea: the store decides. Each rank writes there that it has come. A
// rank that sees that all others have come or have certainly ended, or that has lost its patience,
// proposes the ranks that have come as the new members; the first proposal holds for all
// (RendezvousStore::SetOnce). After the attempt to join, the first rank decides in the same way
// whether it succeeded. If not, all members begin another round. Invariant: all ranks agree on the
// members and on the result of every round, so two groups cannot exist.
// A rank that the store has to do without, as it was too late, gets an error and must not go on.
//
// Ranks may have been one call apart when the old group ended, so they must agree first from where
// they go on. The old group has ended; it may be destroyed. The new one uses the old one's store,
// which must outlive it, its medium and timeout, but none of its plans.
// Errors: kUnavailable if the store cannot be reached (as one that a dead rank served), if the
// others went on without this rank, if fewer than `least` ranks are left, or if ranks die so often
// that none of the rounds succeeds within patience and timeout; those of Communicator::Join;
// kUnsupported for a store that cannot decide. Thread safety: as Communicator.
Result<Reformed> Reform(Communicator& old, const Lineage& lineage, const ReformOptions& options);

}  // namespace espalier::runtime
