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

// How the last word of a command line could go on.
struct Completion {
  std::vector<Candidate> candidates;  // whole words
  // Besides: values of this kind that start with `partial`, each behind `before`, which is the part
  // of the word that stays ("--ranks=h0,").
  ArgumentKind kind = ArgumentKind::kText;
  std::string before;
  std::string partial;
  // The values of the options before the last word, by name.
  std::map<std::string, std::string> given;
};

// words: those behind the tool's name; the last is the one to go on with, and may be empty. What
// follows a wrong word is read as well as it can be.
Completion Complete(const Command& root, const std::vector<std::string>& words);

// Whether a name may be offered to a shell. Names come from hosts and from other users: one
// with a character that a shell or a terminal could take for more than itself is not offered, nor
// one that does not begin with a letter or a digit.
bool IsSafeName(std::string_view name);

}  // namespace espalier::cli
