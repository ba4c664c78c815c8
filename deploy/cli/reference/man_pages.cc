#include "deploy/cli/reference/man_pages.h"

#include <fmt/format.h>

#include <algorithm>

#include "deploy/cli/reference/common_facts.h"

namespace espalier::cli {
namespace {

// Escapes a line of text, or an argument of a macro, so that nothing in it is taken for a request,
// a macro or an escape.
std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '\\':
        escaped += "\\e";
        break;
      case '"':
        escaped += "\\(dq";
        break;
      case '\'':
        escaped += "\\(aq";
        break;
      case '`':
        escaped += "\\(ga";
        break;
      case '^':
        escaped += "\\(ha";
        break;
      case '~':
        escaped += "\\(ti";
        break;
      case '\n':
        escaped += ' ';
        break;
      default:
        escaped += c;
    }
  }
  if (escaped.starts_with('.')) escaped.insert(0, "\\&");
  return escaped;
}

// Puts each sentence on a line of its own.
std::string Lines(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    std::size_t end = 0;
    do {
      end = text.find(". ", end);
      end = end == std::string_view::npos ? text.size() : end + 2;
    } while (end < text.size() && (text[end] < 'A' || text[end] > 'Z'));
    std::string_view sentence = text.substr(0, end);
    if (sentence.ends_with(' ')) sentence.remove_suffix(1);
    lines += Escape(sentence) + "\n";
    text.remove_prefix(end);
  }
  return lines;
}

// Escapes words so that none is taken for a macro.
std::string Words(std::string_view text) {
  std::string words = "\\&";
  for (const char c : Escape(text)) {
    words += c;
    if (c == ' ') words += "\\&";
  }
  return words;
}

std::string Literal(std::string_view text) {
  std::string lines = ".Bd -literal\n";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = Escape(text.substr(0, end));
    lines += (line.empty() ? "\\&" : line) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines + ".Ed\n";
}

std::string Dashed(std::string name) {
  std::ranges::replace(name, ' ', '-');
  return name;
}

// Formats the names and the value of an argument: "Fl o , Fl -output Ar FILE".
std::string Macros(const Argument& argument) {
  if (argument.is_positional) {
    return "Ar " + Words(argument.names.front()) + (argument.is_repeatable ? " ..." : "");
  }
  std::string macros;
  for (const std::string& name : argument.names) {
    macros += (macros.empty() ? "Fl " : " , Fl ") + name.substr(1);
  }
  return argument.IsFlag() ? macros : macros + " Ar " + argument.placeholder;
}

std::string Synopsis(const Command& root, const Command& command) {
  std::string text = fmt::format(".Sh SYNOPSIS\n.Nm {}\n", root.name);
  if (&command != &root) {
    text += fmt::format(".Cm {}\n", Words(command.name.substr(root.name.size() + 1)));
  }
  const auto add = [&text](const Argument& one) {
    // The long name is enough.
    const Argument shown{.names = {one.names.back()},
                         .is_positional = one.is_positional,
                         .is_repeatable = one.is_repeatable,
                         .placeholder = one.placeholder};
    text += (one.is_required ? "." : ".Op ") + Macros(shown) + "\n";
  };
  std::ranges::for_each(command.options, add);
  std::ranges::for_each(command.positionals, add);
  if (!command.commands.empty()) {
    text += command.needs_command ? ".Ar command\n.Op Ar argument ...\n"
                                  : ".Op Ar command Op Ar argument ...\n";
  }
  return text;
}

std::string Sentence(const std::string& text) {
  return Lines(text.empty() || text.ends_with('.') ? text : text + ".");
}

std::string Item(const Argument& argument) {
  std::string text = ".It " + Macros(argument) + "\n";
  text += Lines(argument.Explanation());
  if (!argument.IsFlag()) text += Escape("Values: " + argument.value) + ".\n";
  if (!argument.default_value.empty()) {
    text += Escape("The default is " + argument.default_value) + ".\n";
  }
  return text;
}

// The purpose of a command, without a full stop.
std::string_view Purpose(const Command& root, const Command& command) {
  std::string_view purpose = command.help.empty() ? root.help : command.help;
  if (purpose.ends_with('.')) purpose.remove_suffix(1);
  return purpose;
}

std::string Description(const Command& root, const Command& command) {
  std::string text = ".Sh DESCRIPTION\n";
  text +=
      command.help.empty() ? fmt::format("A command of {}.\n", root.name) : Sentence(command.help);
  if (!command.commands.empty()) {
    text += ".Pp\nThe commands are as follows; each has a page of its own:\n.Bl -tag -width Ds\n";
    for (const Command& one : command.commands) {
      text += fmt::format(".It Xr {} 1\n{}", Dashed(one.name), Sentence(one.help));
    }
    text += ".El\n";
  }
  text += ".Pp\nThe arguments are as follows:\n.Bl -tag -width Ds\n";
  for (const Argument& positional : command.positionals) text += Item(positional);
  for (const Argument& option : command.options) text += Item(option);
  text += ".It Fl h , Fl -help\nPrint the help of the command, then exit.\n.El\n";
  if (!command.footer.empty()) text += Literal(command.footer);
  return text;
}

std::string Facts(std::string_view heading, std::string_view macro, auto& facts) {
  std::string text = fmt::format(".Sh {}\n.Bl -tag -width Ds\n", heading);
  for (const Fact& fact : facts) {
    text += fmt::format(".It {} {}\n{}\n", macro, fact.name, Escape(fact.text));
  }
  return text + ".El\n";
}

std::string Examples() {
  std::string text = ".Sh EXAMPLES\n";
  for (const Fact& example : kExamples) {
    text +=
        fmt::format("{}{}\n", text.ends_with("EXAMPLES\n") ? "" : ".Pp\n", Escape(example.text));
    text += fmt::format(".Dl {}\n", Words(example.name));
  }
  return text;
}

std::string SeeAlso(const Command& root, const Command& command) {
  if (&command == &root) {
    return ".Sh SEE ALSO\n.Xr espalier-figures 1 ,\n.Xr espalier-agent 8 ,\n"
           ".Xr espalier-controller 8 ,\n.Xr espalier-dpdk 8 ,\n.Xr espalier-engine 8\n";
  }
  const std::string above = command.name.substr(0, command.name.rfind(' '));
  std::string text = fmt::format(".Sh SEE ALSO\n.Xr {} 1", Dashed(root.name));
  if (above != root.name) text += fmt::format(" ,\n.Xr {} 1", Dashed(above));
  return text + "\n";
}

}  // namespace

std::vector<ManPage> FormatManPages(const Command& root, const std::string& date) {
  std::vector<ManPage> pages;
  for (const Command* command : AllCommands(root)) {
    const std::string name = Dashed(command->name);
    std::string title = name;
    std::ranges::transform(title, title.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
    std::string text = fmt::format(".Dd {}\n.Dt {} 1\n.Os\n.Sh NAME\n.Nm {}\n", date, title, name);
    text += ".Nd " + Words(Purpose(root, *command));
    text += "\n" + Synopsis(root, *command) + Description(root, *command);
    text += Facts("ENVIRONMENT", "Ev", kEnvironment) + Facts("EXIT STATUS", "Li", kExitCodes);
    if (command == &root) text += Examples();
    pages.push_back({name + ".1", text + SeeAlso(root, *command)});
  }
  return pages;
}

}  // namespace espalier::cli
