#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "deploy/cli/reference/argument_kind.h"

namespace CLI {
class App;
}

namespace espalier::cli {

// An option, a flag or a positional argument.
struct Argument {
  std::vector<std::string> names;  // "-o", "--output"; of a positional argument its one name
  bool is_positional = false;
  bool is_required = false;
  bool is_repeatable = false;        // takes several values
  std::string placeholder;           // of its value: "FILE"; "": a flag, which takes none
  std::string value;                 // which values are good: "integer, 1 to 64"
  std::vector<std::string> choices;  // all good values, where they are few
  std::string default_value;         // "": none that is known beforehand
  std::string help;
  std::vector<std::string> needs;     // other options that it is good with only
  std::vector<std::string> excludes;  // and those that it is not good with
  ArgumentKind kind = ArgumentKind::kText;

  bool IsFlag() const { return placeholder.empty(); }
  bool HasName(std::string_view name) const;
  // The help, as sentences, and what else there is to say: "Topology file. Required."
  std::string Explanation() const;
};

// What a command line tool, or one of its commands, says of itself. Hidden commands and options
// and --help are left out.
struct Command {
  std::string name;  // whole: "espalier job start"
  std::string help;
  std::string footer;
  bool needs_command = false;  // is no command without one of `commands`
  std::vector<Argument> options;
  std::vector<Argument> positionals;
  std::vector<Command> commands;

  std::string_view LastName() const;
  const Command* FindCommand(std::string_view last_name) const;
  const Argument* FindOption(std::string_view option) const;
};

// The definitions of a tool as plain values; the one source of documents and completion.
Command ReadCommands(const CLI::App& app, const std::string& name);

// A command, then its commands in the order of their definition, each followed by its own.
std::vector<const Command*> AllCommands(const Command& root);

}  // namespace espalier::cli
