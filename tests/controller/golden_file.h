#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace espalier::golden {

// Compares a text with a file of the source tree, line by line. With ESPALIER_WRITE_GOLDEN in the
// environment it writes the file instead and fails the test, so that this cannot stay on unnoticed.
inline void ExpectGolden(const std::string& path, const std::string& text) {
  if (std::getenv("ESPALIER_WRITE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    ADD_FAILURE() << path << " was written";
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " cannot be read";
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  std::istringstream expected_lines(expected);
  std::istringstream lines(text);
  std::string line;
  std::string expected_line;
  for (int number = 1; std::getline(expected_lines, expected_line); ++number) {
    ASSERT_TRUE(std::getline(lines, line)) << path << " has a line more: " << number;
    ASSERT_EQ(line, expected_line) << path << ", line " << number;
  }
  EXPECT_FALSE(std::getline(lines, line)) << path << " lacks the line: " << line;
}

}  // namespace espalier::golden
