#include "deploy/cli/reference/markdown.h"

#include <fmt/format.h>

#include <algorithm>

#include "deploy/cli/reference/common_facts.h"

namespace espalier::cli {
namespace {

// Escapes the text of a cell of a table, so that nothing in it is Markdown.
std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += ' ';
      continue;
    }
    if (std::string_view("|*<>\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string Code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

std::string Usage(const Command& command) {
  std::string usage = command.name;
  for (const Argument& option : command.options) {
    if (option.is_required) usage += fmt::format(" {} {}", option.names.back(), option.placeholder);
  }
  const auto is_optional = [](const Argument& option) { return !option.is_required; };
  if (std::ranges::any_of(command.options, is_optional)) usage += " [OPTION...]";
  for (const Argument& positional : command.positionals) {
    const std::string text = positional.names.front() + (positional.is_repeatable ? "..." : "");
    usage += positional.is_required ? " " + text : " [" + text + "]";
  }
  if (!command.commands.empty()) usage += command.needs_command ? " COMMAND" : " [COMMAND]";
  return usage;
}

std::string Row(const Argument& argument) {
  std::string names;
  for (const std::string& name : argument.names) names += (names.empty() ? "" : ", ") + Code(name);
  if (!argument.IsFlag() && !argument.is_positional) names += " " + argument.placeholder;
  return fmt::format("| {} | {} | {} | {} |\n", names, Escape(argument.value),
                     Code(argument.default_value), Escape(argument.Explanation()));
}

std::string Anchor(const std::string& name) {
  std::string anchor = name;
  std::ranges::replace(anchor, ' ', '-');
  return anchor;
}

std::string Section(const Command& command) {
  std::string text = fmt::format("\n## {}\n", command.name);
  if (!command.help.empty()) {
    text += Escape(command.help) + (command.help.ends_with('.') ? "\n" : ".\n");
  }
  text += fmt::format("```\n{}\n```\n", Usage(command));
  if (!command.positionals.empty() || !command.options.empty()) {
    text += "| argument | values | default | meaning |\n|---|---|---|---|\n";
    for (const Argument& positional : command.positionals) text += Row(positional);
    for (const Argument& option : command.options) text += Row(option);
  }
  if (!command.footer.empty()) text += fmt::format("```\n{}\n```\n", command.footer);
  return text;
}

}  // namespace

std::string FormatMarkdown(const Command& root) {
  std::string text = fmt::format(
      "# The commands of `{0}`\n"
      "This page is written by `{0} reference markdown` from the definitions of the commands; do "
      "not edit it.\nEvery command has a man page with the same content, such as `man "
      "{0}-job-start`.\n\n"
      "Every command has `-h` and `--help`, which print its help.\n\n"
      "| exit code | meaning |\n|---|---|\n",
      root.name);
  for (const Fact& code : kExitCodes) text += fmt::format("| {} | {} |\n", code.name, code.text);
  text += "\n| environment variable | meaning |\n|---|---|\n";
  for (const Fact& variable : kEnvironment) {
    text += fmt::format("| `{}` | {} |\n", variable.name, Escape(variable.text));
  }
  text += "\n| command | purpose |\n|---|---|\n";
  const std::vector<const Command*> all = AllCommands(root);
  for (const Command* command : all) {
    text += fmt::format("| [`{}`](#{}) | {} |\n", command->name, Anchor(command->name),
                        Escape(command->help));
  }
  for (const Command* command : all) text += Section(*command);
  return text;
}

}  // namespace espalier::cli
