#pragma once

#include <cstddef>
#include <string>

namespace espalier::controller {

// The answer to a request with several entries: {"taken": COUNT}, the number of accepted ones.
std::string AcceptedAnswer(std::size_t count);

}  // namespace espalier::controller
