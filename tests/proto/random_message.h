#pragma once

#include <cstdint>
#include <random>

#include "proto/messages.h"

namespace espalier::wire {

// Returns a valid message of the kind with this index in Body, with lists of up to max_entries; the
// same for the same state of the generator.
Message MakeRandomMessage(std::size_t kind, std::size_t max_entries, std::mt19937_64& random);

// Returns a report of `flows` flows that progress, or are opened, as an agent sends it.
Message MakeProgressReport(std::size_t flows);
Message MakeOpenedReport(std::size_t flows);

}  // namespace espalier::wire
