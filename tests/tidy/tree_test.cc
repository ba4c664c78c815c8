#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/tidy/source_rules.h"

namespace espalier::tidy {
namespace {

namespace fs = std::filesystem;

// True for built, hidden and binary files, which are not written by hand.
bool IsLeftOut(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == "build" || name == "corpus" || name == "golden" || name.ends_with(".png") ||
         (name.starts_with(".") && name != ".ci");
}

std::vector<SourceFile> ReadTree(const fs::path& root) {
  std::vector<SourceFile> files;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::end(entry); ++entry) {
    if (IsLeftOut(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && entry->path().extension() != ".csv") {
      std::ifstream stream(entry->path(), std::ios::binary);
      files.push_back({fs::relative(entry->path(), root).string(),
                       {std::istreambuf_iterator<char>(stream), {}}});
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

TEST(Tree, HasLayersThatIncludeDownwardOnly) {
  for (const std::string& violation : FindUpwardArrows(Layers())) ADD_FAILURE() << violation;
}

TEST(Tree, KeepsItsOwnRules) {
  const std::vector<SourceFile> files = ReadTree(ESPALIER_SOURCE_DIR);
  ASSERT_GT(files.size(), 50U);
  for (const std::string& violation : FindViolations(files)) ADD_FAILURE() << violation;
}

}  // namespace
}  // namespace espalier::tidy
