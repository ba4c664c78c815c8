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
  std::vector<std::string> names;  // "-o", "--output"; a positional argument has one name
  bool is_positional = false;
  bool is_required = false;
  bool is_repeatable = false;        // takes several values
  std::string placeholder;           // of its value, such as "FILE"; "" for a flag
  std::string value;                 // the valid values: "integer, 1 to 64"
  std::vector<std::string> choices;  // all valid values, if they are few
  std::string default_value;         // "": none, or none that the definition tells
  std::string help;
  std::vector<std::string> needs;     // options that must be given with it
  std::vector<std::string> excludes;  // options that must not be given with it
  ArgumentKind kind = ArgumentKind::kText;

  bool IsFlag() const { return placeholder.empty(); }
  bool HasName(std::string_view name) const;
  // The help as sentences, with the other properties: "Topology file. Required."
  std::string Explanation() const;
};

// The definition of a command line tool or of one of its commands. Hidden commands and options and
// --help are left out.
struct Command {
  std::string name;  // the full name: "espalier job start"
  std::string help;
  std::string footer;
  bool needs_command = false;  // must be followed by one of `commands`
  std::vector<Argument> options;
  std::vector<Argument> positionals;
  std::vector<Command> commands;

  std::string_view LastName() const;
  const Command* FindCommand(std::string_view last_name) const;
  const Argument* FindOption(std::string_view option) const;
};

// Reads the definitions of a tool into plain values, the one source of documents and completion.
Command ReadCommands(const CLI::App& app, const std::string& name);

// Replaces the type TEXT in --help by the name of the kind of value: FILE, LINK, CHOICE and the
// like.
void NameValues(CLI::App& app, const std::string& name);

// Returns a command, then its commands in the order of their definition, each followed by its own.
std::vector<const Command*> AllCommands(const Command& root);

}  // namespace espalier::cli
