#include "deploy/cli/command_line/parse.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/files/command_result.h"
#include "common/terminal/closest_name.h"

namespace espalier::cli {
namespace {

CLI::App* FindCommand(const CLI::App& group, const std::string& name) {
  try {
    return group.get_subcommand(name);
  } catch (const CLI::OptionNotFound&) {
    return nullptr;
  }
}

// The command of the group that is most like the word; "": none is alike.
std::string Alike(const CLI::App& group, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::App* command : group.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return ClosestName(word, names);
}

// A complete command instead of one that lacks the kind of what it acts on: "fail leaf0--spine1".
std::string WithKind(const CLI::App& group, const std::string& path, std::string_view word) {
  const auto has = [&](const char* kind) { return FindCommand(group, kind) != nullptr; };
  if (!has("link") || !has("node") || word.starts_with('-')) return "";
  const bool is_link = word.find("--") != std::string_view::npos;
  return fmt::format("{} {} {}", path, is_link ? "link" : "node", word);
}

struct Complaint {
  std::string message;
  std::string remedy;
};

// Whether the word right after the name of a command can only be one of its subcommands.
bool TakesOnlySubcommands(const CLI::App& command) {
  const auto all = [](const CLI::App*) { return true; };
  const auto is_positional = [](const CLI::Option* option) { return option->get_positional(); };
  return !command.get_subcommands(all).empty() && command.get_options(is_positional).empty();
}

// What is wrong with the commands among the words; none: they exist. `is_help`: the words may name
// a group without one of its commands.
std::optional<Complaint> FindUnknownCommand(CLI::App& app, const std::vector<std::string>& words,
                                            bool is_help = false) {
  CLI::App* group = &app;
  std::string path = "espalier";
  for (const std::string& word : words) {
    const bool needs_none = group->get_require_subcommand_min() == 0;
    if (needs_none && (word.starts_with('-') || !TakesOnlySubcommands(*group))) return std::nullopt;
    if (word.starts_with('-')) continue;
    if (CLI::App* const next = FindCommand(*group, word)) {
      group = next;
      path += " " + word;
      continue;
    }
    const std::string alike = Alike(*group, word);
    const std::string meant =
        alike.empty() ? WithKind(*group, path, word) : fmt::format("{} {}", path, alike);
    return Complaint{fmt::format("there is no command \"{} {}\"", path, word),
                     meant.empty() ? fmt::format("`{} --help` lists the commands", path)
                                   : fmt::format("did you mean `{}`?", meant)};
  }
  if (is_help || group->get_require_subcommand_min() == 0) return std::nullopt;
  return Complaint{fmt::format("`{}` needs a command", path),
                   fmt::format("`{} --help` lists the commands", path)};
}

// A number below zero among the words; none: there is none. No command takes one, and options for
// unsigned numbers would read it as a large number.
std::optional<Complaint> FindNegativeNumber(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return std::nullopt;  // what follows is another program's
    const bool is_option = word.starts_with("--") && word.find('=') != std::string::npos;
    const std::string_view value =
        std::string_view(word).substr(is_option ? word.find('=') + 1 : 0);
    const bool is_negative = value.size() > 1 && value[0] == '-' &&
                             (std::isdigit(static_cast<unsigned char>(value[1])) != 0);
    if (is_negative) {
      return Complaint{fmt::format("\"{}\" is negative", value), "give a number from 0 on"};
    }
  }
  return std::nullopt;
}

// Whether one of these options is among the words that are the tool's own: what follows "--" is
// another program's.
bool HasOption(const std::vector<std::string>& words,
               std::initializer_list<std::string_view> names) {
  const auto end = std::ranges::find(words, "--");
  return std::any_of(words.begin(), end, [&](const std::string& word) {
    return std::ranges::find(names, word) != names.end();
  });
}

int Refuse(const Complaint& complaint) {
  const std::string message = fmt::format("{} ({})", complaint.message, complaint.remedy);
  return io::ReportError({ErrorCode::kInvalidArgument, message});
}

Complaint ComplaintOf(CLI::App& app, const std::vector<std::string>& words,
                      const CLI::ParseError& error) {
  if (auto unknown = FindUnknownCommand(app, words)) return *unknown;
  std::string path = "espalier";
  CLI::App* command = &app;
  for (const std::string& word : words) {
    CLI::App* const next = FindCommand(*command, word);
    if (next == nullptr) break;
    command = next;
    path += " " + word;
  }
  return {error.what(), fmt::format("see `{} --help`", path)};
}

}  // namespace

int ParseAndRun(CLI::App& app, int argc, char** argv, int& exit_code) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  std::optional<io::JsonErrors> json_errors;
  if (HasOption(words, {"--json"})) json_errors.emplace();
  if (HasOption(words, {"--help", "-h"})) {
    // The option parser would print the help of the last command that it knows.
    if (const auto unknown = FindUnknownCommand(app, words, /*is_help=*/true)) {
      return Refuse(*unknown);
    }
  }
  if (const auto negative = FindNegativeNumber(words)) return Refuse(*negative);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return Refuse(ComplaintOf(app, words, error));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return io::ReportError({ErrorCode::kInternal, "cannot write to standard output"});
  }
  return exit_code;
}

}  // namespace espalier::cli
