#pragma once

#include <vector>

#include "proto/messages.h"

namespace espalier::wire {

// Returns one small message of each kind, in the order of Body; every field has a different value.
std::vector<Message> MakeExamples();

}  // namespace espalier::wire
