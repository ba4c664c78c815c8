#include "tests/tidy/source_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "tests/tidy/layers.h"

namespace espalier::tidy {
namespace {

constexpr std::size_t kMaxLines = 500;
constexpr std::size_t kMaxMainLines = 150;

// Libraries that cost seconds of compilation in every file that includes them.
constexpr std::array<std::string_view, 7> kHeavyIncludes = {
    "<boost/", "<google/protobuf/", "<prometheus/", "<rapidjson/", "<spdlog/", "<zmq", ".pb.h\""};

// Composed so that this file does not contain the words that it searches for.
const std::array<std::string, 4>& ForbiddenWords() {
  static const std::array<std::string, 4> words = {
      std::string("TO") + "DO", std::string("FIX") + "ME", std::string("/wo") + "rk/",
      std::string("/fa") + "rm/"};
  return words;
}

bool IsHeader(std::string_view path) { return path.ends_with(".h"); }
bool IsSource(std::string_view path) {
  return IsHeader(path) || path.ends_with(".cc") || path.ends_with(".c");
}
bool IsMain(std::string_view path) { return path.ends_with("/main.cc"); }

const Layer* FindLayer(std::string_view path) {
  const Layer* found = nullptr;
  for (const Layer& layer : Layers()) {
    if (path.starts_with(layer.start) &&
        (found == nullptr || layer.start.size() > found->start.size())) {
      found = &layer;
    }
  }
  return found;
}

// The included name with its delimiters; empty if the line is not an include.
std::string_view IncludedName(std::string_view line) {
  constexpr std::string_view kInclude = "#include ";
  if (!line.starts_with(kInclude)) return {};
  line.remove_prefix(kInclude.size());
  return line.substr(0, line.find_last_of("\">") + 1);
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end + (text[end] == '\n' ? 0 : 1)));
    text.remove_prefix(end + 1);
  }
  return lines;
}

class Checker {
 public:
  explicit Checker(const std::vector<SourceFile>& files) {
    for (const SourceFile& file : files) paths_.insert(file.path);
  }

  void Check(const SourceFile& file) {
    path_ = file.path;
    line_ = 0;
    const std::vector<std::string_view> lines = SplitLines(file.text);
    for (const std::string_view line : lines) {
      ++line_;
      CheckWords(line);
      if (const auto name = IncludedName(line); IsSource(path_) && !name.empty()) {
        CheckInclude(name);
      }
    }
    if (IsSource(path_)) CheckWhole(file.text, lines.size());
  }

  std::vector<std::string> TakeViolations() { return std::move(violations_); }

 private:
  void Report(std::string_view what) {
    violations_.push_back(fmt::format("{}:{}: {}", path_, line_, what));
  }

  void CheckWords(std::string_view line) {
    // Go's format uses tabs.
    if (line.find('\t') != std::string_view::npos && !path_.ends_with(".go")) Report("a tab");
    for (const std::string& word : ForbiddenWords()) {
      if (line.find(word) != std::string_view::npos) Report("has " + word);
    }
  }

  void CheckInclude(std::string_view name) {
    for (const std::string_view heavy : kHeavyIncludes) {
      if (IsHeader(path_) && name.find(heavy) != std::string_view::npos) {
        Report(fmt::format("{} in a header (include it in the .cc file)", name));
      }
    }
    if (name.front() != '"') return;
    const std::string included(name.substr(1, name.size() - 2));
    if (!included.ends_with(".pb.h") && !paths_.contains(included)) {
      Report(fmt::format("{} is not a file, seen from the root", name));
      return;
    }
    CheckLayers(included);
  }

  void CheckLayers(std::string_view included) {
    if (path_.starts_with("tests/") || IsMain(path_)) return;
    const Layer* from = FindLayer(path_);
    const Layer* to = FindLayer(included);
    if (from == nullptr || to == nullptr) {
      Report(fmt::format("{} belongs to no layer (tests/tidy/layers.h)",
                         from == nullptr ? path_ : included));
    } else if (from != to && std::find(from->may_include.begin(), from->may_include.end(),
                                       to->start) == from->may_include.end()) {
      Report(fmt::format("{} must not include {}", from->start, to->start));
    }
  }

  void CheckWhole(std::string_view text, std::size_t lines) {
    const std::size_t limit = IsMain(path_) ? kMaxMainLines : kMaxLines;
    if (lines > limit) Report(fmt::format("more than {} lines", limit));
    // C headers have include guards instead.
    const bool is_guarded = text.find("#pragma once") != std::string_view::npos ||
                            text.find("#ifndef ESPALIER_") != std::string_view::npos;
    if (IsHeader(path_) && !is_guarded) Report("no #pragma once");
  }

  std::set<std::string, std::less<>> paths_;
  std::vector<std::string> violations_;
  std::string_view path_;
  std::size_t line_ = 0;
};

}  // namespace

std::vector<std::string> FindUpwardArrows(const std::vector<Layer>& layers) {
  std::vector<std::string> violations;
  std::set<std::string_view> above;
  for (const Layer& layer : layers) {
    for (const std::string_view included : layer.may_include) {
      if (above.contains(included)) continue;
      violations.push_back(fmt::format("{} may include {}, which is not above it in the table",
                                       layer.start, included));
    }
    above.insert(layer.start);
  }
  return violations;
}

std::vector<std::string> FindViolations(const std::vector<SourceFile>& files) {
  Checker checker(files);
  for (const SourceFile& file : files) checker.Check(file);
  return checker.TakeViolations();
}

}  // namespace espalier::tidy
