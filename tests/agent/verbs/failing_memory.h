#pragma once

namespace espalier {

// From now on this thread's operator new makes that many allocations; those after them throw
// std::bad_alloc. A program that links this has an operator new of its own.
void FailAllocationAfter(int allocations);
// No more. True: none has failed.
bool StopFailing();

}  // namespace espalier
