#pragma once

#include <vector>

#include "proto/messages.h"

namespace espalier::wire {

// One small message of each kind, in the order of Body, with every field at a value of its own.
std::vector<Message> MakeExamples();

}  // namespace espalier::wire
