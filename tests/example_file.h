#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace espalier {

// The example of a configuration file that packages install (deploy/systemd). Fields that it shows
// in a comment, as `# name: value`, are shown with their defaults or with examples.
class ExampleFile {
 public:
  // name: "controller.conf".
  explicit ExampleFile(const std::string& name) {
    std::ifstream file(ESPALIER_SOURCE_DIR "/deploy/systemd/" + name);
    text_.assign(std::istreambuf_iterator<char>(file), {});
    EXPECT_FALSE(text_.empty()) << name;
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) TakeLine(line);
  }

  const std::string& text() const { return text_; }

  // Fields in comments, each with its values as protobuf's text format writes them: 600, "info".
  const std::multimap<std::string, std::string>& shown() const { return shown_; }

  // What is wrong with `defaults`, which names a field's default as the file would write it: each
  // that the file shows otherwise or not at all, and each shown field that is in neither list. One
  // a line.
  std::string Compare(const std::map<std::string, std::string>& defaults,
                      const std::vector<std::string>& examples) const {
    std::string wrong;
    for (const auto& [name, value] : defaults) {
      const auto [first, last] = shown_.equal_range(name);
      bool is_shown = false;
      for (auto field = first; field != last; ++field) is_shown |= field->second == value;
      if (!is_shown) wrong += fmt::format("{}: {} is not what the file shows\n", name, value);
    }
    for (const auto& [name, value] : shown_) {
      if (defaults.contains(name)) continue;
      const bool is_example = std::find(examples.begin(), examples.end(), name) != examples.end();
      if (!is_example) wrong += fmt::format("{}: nobody says what its default is\n", name);
    }
    return wrong;
  }

 private:
  void TakeLine(const std::string& line) {
    if (!line.starts_with("# ")) return;
    std::size_t end = 2;
    while (end < line.size() && ((line[end] >= 'a' && line[end] <= 'z') || line[end] == '_')) ++end;
    // A sentence with a colon is no field.
    if (end == 2 || line.compare(end, 2, ": ") != 0) return;
    const std::size_t start = end + 2;
    const std::size_t stop =
        line[start] == '"' ? line.find('"', start + 1) + 1 : line.find(' ', start);
    const std::string value = line.substr(start, stop - start);
    const std::size_t rest = line.find_first_not_of(' ', std::min(stop, line.size()));
    if (rest == std::string::npos || line[rest] == '#')
      shown_.emplace(line.substr(2, end - 2), value);
  }

  std::string text_;
  std::multimap<std::string, std::string> shown_;
};

// A text as protobuf's text format writes it (none of those here needs an escape).
inline std::string Quoted(const std::string& text) { return '"' + text + '"'; }
inline std::string Written(bool value) { return value ? "true" : "false"; }

}  // namespace espalier
