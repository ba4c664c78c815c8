#pragma once

#include <span>
#include <string_view>

namespace espalier::cli {

// What the value of an argument names, if a shell can offer values for it.
enum class ArgumentKind {
  kText,  // anything else: a shell offers nothing
  kFile,
  kFolder,
  // Names that the running controller knows:
  kLink,
  kNode,
  kFlow,
  kJob,
  kTreeJob,  // a job that `job start` started
  kPolicy,
  kAgent,
  kWindow,
  kEventKind,
};

// Says that the values of an argument ("--topology", "FILE") are of a kind.
struct KindEntry {
  std::string_view command;  // "fail link"; "": every command
  std::string_view argument;
  ArgumentKind kind;
};

// The kinds of all arguments, which the definitions of the commands do not tell. The first entry
// that matches an argument holds. A test finds entries that match no argument.
std::span<const KindEntry> KindTable();
ArgumentKind KindOf(std::string_view command, std::string_view argument);

// Returns the placeholder of a value in a synopsis, such as "FILE"; "" for kText.
std::string_view Placeholder(ArgumentKind kind);

}  // namespace espalier::cli
