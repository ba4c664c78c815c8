#pragma once

namespace espalier::bench {

// Measures flows of several subflows over a number of spines, or planes, that does not divide them,
// in equal and unequal parts (UnevenPaths), and prints a table: time, load and its lower bound, and
// how many flows take several paths. Aborts if the parts of a flow are not the whole of it, or if
// the load is not that of the paths.
void MeasureAllShares();

}  // namespace espalier::bench
