#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/program/passes/instruction_dag.h"

namespace espalier::program {

enum class SchedulePriority {
  kDepth,  // fewest hops before, then most hops after (GC3, section 5.2)
  kTrace,  // the order of the program's text
};

// Finds a global order of all instructions in which every processing and communication edge goes
// forward, connections are FIFOs, and no connection ever holds more than `fifo_slots` messages.
// Thread blocks that each follow this order cannot deadlock. Returns none if no such order was
// found, which cannot happen for an unfused program in the order of its text. n log n in the
// instructions and edges.
// Precondition: channels are assigned.
std::optional<std::vector<std::int32_t>> Schedule(const InstructionDag& dag, int fifo_slots,
                                                  SchedulePriority priority);

}  // namespace espalier::program
