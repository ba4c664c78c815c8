#pragma once

#include <cstddef>

#include "collective/runtime/group/communicator.h"
#include "common/base/result.h"

namespace espalier::runtime {

// A call whose result follows from its elements (elements.h), between guards that must stay intact.
struct Case {
  reduce::DataType type;
  reduce::ReduceOp op;
  std::size_t count;
  bool in_place;
  bool is_registered = false;
};

void ExpectDone(const Result<void>& result);

// Runs on each rank of a group, in a thread of its own.
void ExpectAllReduce(Communicator& group, const Case& test);
void ExpectReduce(Communicator& group, const Case& test);
void ExpectBroadcast(Communicator& group, const Case& test);
void ExpectAllGather(Communicator& group, const Case& test);
void ExpectReduceScatter(Communicator& group, const Case& test);
void ExpectAllToAll(Communicator& group, const Case& test);
// All cases with several counts; types, operations and buffer placements alternate.
void ExpectEveryCollective(Communicator& group, bool is_registered);

}  // namespace espalier::runtime
