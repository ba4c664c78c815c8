#pragma once

#include <map>
#include <string>
#include <vector>

#include "deploy/cli/reference/command_tree.h"

namespace espalier::cli {

struct Candidate {
  std::string word;
  std::string help;
};

// The ways to complete the last word of a command line.
struct Completion {
  std::vector<Candidate> candidates;  // whole words
  // In addition: values of this kind that start with `partial`, each preceded by `before`, the part
  // of the word that stays ("--ranks=h0,").
  ArgumentKind kind = ArgumentKind::kText;
  std::string before;
  std::string partial;
  // The values of the options before the last word, by name.
  std::map<std::string, std::string> given;
};

// Completes the last of `words`, which may be empty. `words` are those after the tool's name. Words
// that no definition matches are skipped.
Completion Complete(const Command& root, const std::vector<std::string>& words);

}  // namespace espalier::cli
