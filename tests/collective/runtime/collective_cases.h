#pragma once

#include <cstddef>

#include "collective/runtime/group/communicator.h"
#include "common/base/result.h"

namespace espalier::runtime {

// A call whose outcome the elements say (elements.h), between guards that nobody may touch.
struct Case {
  reduce::DataType type;
  reduce::ReduceOp op;
  std::size_t count;
  bool in_place;
  bool is_registered = false;
};

void ExpectDone(const Result<void>& result);

// For each rank of a group, on a thread of its own.
void ExpectAllReduce(Communicator& group, const Case& test);
void ExpectReduce(Communicator& group, const Case& test);
void ExpectBroadcast(Communicator& group, const Case& test);
void ExpectAllGather(Communicator& group, const Case& test);
void ExpectReduceScatter(Communicator& group, const Case& test);
void ExpectAllToAll(Communicator& group, const Case& test);
// All of these with some counts; types, operations and places by turns.
void ExpectEveryCollective(Communicator& group, bool is_registered);

}  // namespace espalier::runtime
