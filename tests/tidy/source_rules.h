#pragma once

#include <string>
#include <vector>

#include "tests/tidy/layers.h"

namespace espalier::tidy {

struct SourceFile {
  std::string path;  // from the root: "common/base/units.h"
  std::string text;
};

// What clang-format and clang-tidy can't say about this tree: the layers that may include one
// another, includes from the root, the heavy libraries that stay out of headers, the lengths of
// files, what must not be left in them. Each violation is one line, "PATH:LINE: what is wrong",
// in the order of the files. Includes are looked up among the given files.
std::vector<std::string> FindViolations(const std::vector<SourceFile>& files);

// A table of layers has its floors in the order of its lines: what a folder may include stands
// above it. So there is no circle among folders, and no arrow leads upward.
std::vector<std::string> FindUpwardArrows(const std::vector<Layer>& layers);

}  // namespace espalier::tidy
