#pragma once

#include <string_view>

namespace espalier::cli {

// Completion for each shell. A script hands the words of the line to `espalier complete`, which
// answers with a candidate a line, a tab and its help behind it where there is one, or with the
// line ":file" or ":folder", for names of the shell's own. No script evaluates what it is
// answered.
std::string_view BashScript();
std::string_view ZshScript();
std::string_view FishScript();

}  // namespace espalier::cli
