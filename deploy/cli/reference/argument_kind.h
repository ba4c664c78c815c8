#pragma once

#include <span>
#include <string_view>

namespace espalier::cli {

// What the value of an argument names, where a shell can offer values for it.
enum class ArgumentKind {
  kText,  // anything else
  kFile,
  kFolder,
  // Of the running controller:
  kLink,
  kNode,
  kFlow,
  kJob,
  kTreeJob,  // that `job start` started
  kPolicy,
  kAgent,
};

// That the values of an argument ("--topology", "FILE") are of a kind.
struct KindEntry {
  std::string_view command;  // "fail link"; "": every command
  std::string_view argument;
  ArgumentKind kind;
};

// The definitions of the commands do not say what their arguments name: this table does. Of several
// entries that fit the first holds. A test looks for entries that name nothing.
std::span<const KindEntry> KindTable();
ArgumentKind KindOf(std::string_view command, std::string_view argument);

// What stands for a value of it in a synopsis: "FILE"; "" for kText.
std::string_view Placeholder(ArgumentKind kind);

}  // namespace espalier::cli
