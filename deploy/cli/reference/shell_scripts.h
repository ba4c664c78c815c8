#pragma once

#include <string_view>

namespace espalier::cli {

// The completion scripts of the shells. A script passes the words of the line to `espalier
// complete`, which prints a candidate a line, followed by a tab and its help if there is one, or
// the line ":file" or ":folder" for names that the shell completes. No script evaluates the answer.
std::string_view BashScript();
std::string_view ZshScript();
std::string_view FishScript();

}  // namespace espalier::cli
