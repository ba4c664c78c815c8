#pragma once

#include <string>
#include <vector>

#include "tests/tidy/layers.h"

namespace espalier::tidy {

struct SourceFile {
  std::string path;  // from the root: "common/base/units.h"
  std::string text;
};

// Finds violations that clang-format and clang-tidy do not: includes against the layers, includes
// that are not from the root, heavy libraries in headers, long files, and forbidden words. Each
// violation is one line, "PATH:LINE: what is wrong", in the order of the files. Includes are looked
// up among the given files.
std::vector<std::string> FindViolations(const std::vector<SourceFile>& files);

// Finds folders of the table that may include a folder below them. If there are none, there are no
// cycles between folders.
std::vector<std::string> FindUpwardArrows(const std::vector<Layer>& layers);

}  // namespace espalier::tidy
