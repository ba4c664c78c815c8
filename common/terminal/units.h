#pragma once

#include <string>

namespace espalier::cli {

// Numbers as people read them: three digits and a unit. "0 B", "1.50 MB", "12.3 GB" (powers of
// 1000); "9.41 Gbit/s"; "64.0 ms", "2.50 s", "3.2 min", "5.1 h".
std::string FormatBytes(double bytes);
std::string FormatRate(double bits_per_second);
std::string FormatSeconds(double seconds);

}  // namespace espalier::cli
