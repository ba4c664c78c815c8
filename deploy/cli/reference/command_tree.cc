#include "deploy/cli/reference/command_tree.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace espalier::cli {
namespace {

struct TypeWords {
  std::string_view type;  // the type name of an option: CLI11's, or that of its definition
  std::string_view placeholder;
  std::string_view words;
};
constexpr std::array kTypes = {TypeWords{"INT", "INTEGER", "integer"},
                               TypeWords{"UINT", "INTEGER", "integer, at least 0"},
                               TypeWords{"FLOAT", "NUMBER", "number"},
                               TypeWords{"BYTES", "BYTES", "integer, at least 0"},
                               TypeWords{"CLASS", "CLASS", "integer, at least 0"},
                               TypeWords{"COUNT", "COUNT", "integer"},
                               TypeWords{"FACTOR", "FACTOR", "integer, at least 2"},
                               TypeWords{"GBPS", "GBPS", "decimal number"},
                               TypeWords{"MBPS", "MBPS", "number"},
                               TypeWords{"RANK", "RANK", "integer, at least 0"},
                               TypeWords{"SECONDS", "SECONDS", "integer"},
                               TypeWords{"SEED", "SEED", "integer, at least 0"},
                               TypeWords{"TEXT", "TEXT", "text"}};
constexpr std::string_view kTextType = "TEXT";

const TypeWords& WordsOf(std::string_view type) {
  const auto* const found = std::ranges::find(kTypes, type, &TypeWords::type);
  return found == kTypes.end() ? kTypes.back() : *found;
}

std::vector<std::string> SplitChoices(std::string_view check) {
  std::vector<std::string> choices;
  if (!check.starts_with('{') || !check.ends_with('}')) return choices;
  check = check.substr(1, check.size() - 2);
  while (!check.empty()) {
    const std::size_t comma = std::min(check.find(','), check.size());
    choices.emplace_back(check.substr(0, comma));
    check.remove_prefix(std::min(comma + 1, check.size()));
  }
  return choices;
}

// Describes a check in words: "INT in [1 - 64]" -> "integer, 1 to 64".
std::string DescribeCheck(const TypeWords& words, std::string_view check) {
  const std::string_view plain = words.words.substr(0, words.words.find(','));
  if (check == "NONNEGATIVE") return fmt::format("{}, at least 0", plain);
  if (check.starts_with("SIZE"))
    return "bytes, with or without a unit such as K or kb (1,024 bytes)";
  if (check == "POSITIVE") return fmt::format("{}, above 0", plain);
  const std::size_t begin = check.find(" in [");
  const std::size_t middle = check.find(" - ", begin);
  if (begin == std::string_view::npos || middle == std::string_view::npos) {
    return std::string(words.words);
  }
  const std::string_view from = check.substr(begin + 5, middle - begin - 5);
  const std::string_view to = check.substr(middle + 3, check.size() - middle - 4);
  return fmt::format("{}, {} to {}", plain, from, to);
}

// Reads the values of an option from its type name: "TEXT:{a,b}", "INT:INT in [1 - 64]", "UINT".
void ReadValue(const CLI::Option& option, Argument& argument) {
  const std::string type = option.get_type_name();
  const std::size_t colon = std::min(type.find(':'), type.size());
  const std::string_view check = std::string_view(type).substr(std::min(colon + 1, type.size()));
  const std::string_view name = std::string_view(type).substr(0, colon);
  const TypeWords& words = WordsOf(name);
  const bool has_own_name = !name.empty() && words.type != name;
  argument.placeholder = has_own_name ? name : words.placeholder;
  argument.choices = SplitChoices(check);
  argument.value = argument.choices.empty() ? DescribeCheck(words, check)
                                            : fmt::format("{}", fmt::join(argument.choices, ", "));
  if (!argument.choices.empty()) argument.placeholder = "CHOICE";
  if (argument.kind != ArgumentKind::kText) {
    if (!has_own_name) argument.placeholder = Placeholder(argument.kind);
    argument.value = argument.placeholder;
    std::ranges::transform(argument.value, argument.value.begin(), ::tolower);
  }
  argument.default_value = option.get_default_str();
  argument.is_repeatable = option.get_items_expected_max() > 1;
}

// Returns the name of a command without that of the tool: "job start", as KindOf takes it.
std::string_view PathOf(std::string_view name) {
  return name.substr(std::min(name.find(' '), name.size() - 1) + 1);
}

// Names the value of an option in its --help. Positional arguments stand for their value.
void NameValue(CLI::Option& option, std::string_view path) {
  if (option.get_items_expected_max() == 0) return;
  const std::string type = option.get_type_name();
  if (!type.starts_with(kTextType)) return;
  const ArgumentKind kind = KindOf(path, option.get_name(option.get_positional()));
  if (type.starts_with("TEXT:{")) {
    option.type_name("CHOICE");
  } else if (option.get_positional()) {
    option.type_name("");
  } else if (kind != ArgumentKind::kText) {
    option.type_name(std::string(Placeholder(kind)));
  }
}

Argument ReadArgument(const CLI::Option& option, std::string_view command) {
  Argument argument;
  argument.is_positional = option.get_positional();
  argument.is_required = option.get_required();
  argument.help = option.get_description();
  if (argument.is_positional) {
    argument.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) argument.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) argument.names.push_back("--" + name);
  }
  for (const CLI::Option* other : option.get_needs()) argument.needs.push_back(other->get_name());
  for (const CLI::Option* other : option.get_excludes()) {
    argument.excludes.push_back(other->get_name());
  }
  argument.kind = KindOf(command, argument.names.back());
  if (option.get_items_expected_max() > 0) ReadValue(option, argument);
  return argument;
}

}  // namespace

bool Argument::HasName(std::string_view name) const {
  return std::ranges::find(names, name) != names.end();
}

std::string Argument::Explanation() const {
  std::string text = help;
  if (!text.empty() && !text.ends_with('.')) text += '.';
  const auto add = [&text](const std::string& sentence) {
    text += (text.empty() ? "" : " ") + sentence;
  };
  if (is_required) add("Required.");
  if (is_repeatable) add("Takes several values.");
  if (!needs.empty()) add(fmt::format("Needs {}.", fmt::join(needs, ", ")));
  if (!excludes.empty()) add(fmt::format("Not with {}.", fmt::join(excludes, ", ")));
  return text;
}

std::string_view Command::LastName() const {
  return std::string_view(name).substr(name.rfind(' ') + 1);
}

const Command* Command::FindCommand(std::string_view last_name) const {
  const auto found = std::ranges::find(commands, last_name, &Command::LastName);
  return found == commands.end() ? nullptr : &*found;
}

const Argument* Command::FindOption(std::string_view option) const {
  const auto found =
      std::ranges::find_if(options, [&](const Argument& one) { return one.HasName(option); });
  return found == options.end() ? nullptr : &*found;
}

Command ReadCommands(const CLI::App& app, const std::string& name) {
  Command command{.name = name, .help = app.get_description(), .footer = app.get_footer()};
  command.needs_command = app.get_require_subcommand_min() > 0;
  const std::string_view path = PathOf(name);
  for (const CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr() || option->get_group().empty()) continue;
    Argument argument = ReadArgument(*option, path);
    (argument.is_positional ? command.positionals : command.options).push_back(std::move(argument));
  }
  // Without a filter, CLI11 returns only the commands that were given on the command line.
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (one->get_group().empty()) continue;
    command.commands.push_back(ReadCommands(*one, name + " " + one->get_name()));
  }
  return command;
}

void NameValues(CLI::App& app, const std::string& name) {
  for (CLI::Option* option : app.get_options()) NameValue(*option, PathOf(name));
  for (CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    NameValues(*one, name + " " + one->get_name());
  }
}

std::vector<const Command*> AllCommands(const Command& root) {
  std::vector<const Command*> all = {&root};
  for (const Command& command : root.commands) {
    const auto below = AllCommands(command);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

}  // namespace espalier::cli
