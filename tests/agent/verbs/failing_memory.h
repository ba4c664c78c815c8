#pragma once

namespace espalier {

// Makes this thread's operator new succeed this many times; later allocations throw
// std::bad_alloc. A program that links this has an operator new of its own.
void FailAllocationAfter(int allocations);
// Ends the failures. Returns true if no allocation has failed.
bool StopFailing();

}  // namespace espalier
