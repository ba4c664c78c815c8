#include "deploy/cli/command_line/parse.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/files/command_result.h"

namespace espalier::cli {
namespace {

// The number of insertions, deletions and replacements of characters that turn one text into the
// other (Levenshtein).
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

CLI::App* FindCommand(const CLI::App& group, const std::string& name) {
  try {
    return group.get_subcommand(name);
  } catch (const CLI::OptionNotFound&) {
    return nullptr;
  }
}

// The command of the group that is most like the word; "": none is alike.
std::string Alike(const CLI::App& group, std::string_view word) {
  std::string best;
  std::size_t least = 3;  // so many changes are too many
  for (const CLI::App* command : group.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string& name = command->get_name();
    const bool is_beginning = word.size() >= 3 && name.starts_with(word);
    const std::size_t distance = is_beginning ? 1 : Distance(word, name);
    if (distance >= std::min(least, word.size())) continue;
    least = distance;
    best = name;
  }
  return best;
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
    return Complaint{fmt::format("there is no command \"{} {}\"", path, word),
                     alike.empty() ? fmt::format("`{} --help` lists the commands", path)
                                   : fmt::format("did you mean `{} {}`?", path, alike)};
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
