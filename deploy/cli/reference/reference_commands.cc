#include "deploy/cli/reference/reference_commands.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/files/command_result.h"
#include "deploy/cli/reference/completion.h"
#include "deploy/cli/reference/man_pages.h"
#include "deploy/cli/reference/markdown.h"
#include "deploy/cli/reference/shell_scripts.h"
#include "deploy/cli/session/controller_names.h"

namespace espalier::cli {
namespace {

constexpr const char* kTool = "espalier";
constexpr Duration kNameLimit = std::chrono::seconds(1);
constexpr unsigned kWholeLimitSeconds = 2;

struct ReferenceRequest {
  std::string form;
  std::string output;
};

// The date of the man pages: SOURCE_DATE_EPOCH, for reproducible builds, or today.
std::string PageDate() {
  const char* const epoch = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t seconds =
      epoch != nullptr ? std::strtoll(epoch, nullptr, 10) : std::time(nullptr);
  return fmt::format("{:%B %d, %Y}", fmt::gmtime(seconds));
}

int WriteManPages(const Command& root, const std::string& folder) {
  if (folder.empty()) {
    return io::ReportError(
        {ErrorCode::kInvalidArgument,
         "reference man: no folder to write the pages to (name one with --output)"});
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return io::ReportError(
        {ErrorCode::kPermissionDenied,
         fmt::format("cannot create the folder {}: {}", folder, error.message())});
  }
  for (const ManPage& page : FormatManPages(root, PageDate())) {
    const int code =
        io::WriteOutput(page.text, (std::filesystem::path(folder) / page.file_name).string());
    if (code != 0) return code;
  }
  return 0;
}

int WriteReference(const CLI::App& app, const ReferenceRequest& request) {
  const Command root = ReadCommands(app, kTool);
  if (request.form == "man") return WriteManPages(root, request.output);
  const std::string text = request.form == "markdown" ? FormatMarkdown(root)
                           : request.form == "bash"   ? std::string(BashScript())
                           : request.form == "zsh"    ? std::string(ZshScript())
                                                      : std::string(FishScript());
  return io::WriteOutput(text, request.output);
}

// Ends the process after a time limit, so that nothing (a name resolver, a pipe) blocks a prompt.
class WholeLimit {
 public:
  WholeLimit() : before_(std::signal(SIGALRM, [](int) { ::_exit(0); })) {
    ::alarm(kWholeLimitSeconds);
  }
  ~WholeLimit() {
    ::alarm(0);
    std::signal(SIGALRM, before_);
  }
  WholeLimit(const WholeLimit&) = delete;
  WholeLimit& operator=(const WholeLimit&) = delete;

 private:
  void (*before_)(int);
};

// What the controller has names of, for values of this kind; none: it knows none of them.
std::optional<NameKind> NamesFor(ArgumentKind kind) {
  static const std::map<ArgumentKind, NameKind> kKinds = {
      {ArgumentKind::kLink, NameKind::kLink},          {ArgumentKind::kNode, NameKind::kNode},
      {ArgumentKind::kFlow, NameKind::kFlow},          {ArgumentKind::kJob, NameKind::kJob},
      {ArgumentKind::kTreeJob, NameKind::kTreeJob},    {ArgumentKind::kPolicy, NameKind::kPolicy},
      {ArgumentKind::kAgent, NameKind::kAgent},        {ArgumentKind::kWindow, NameKind::kWindow},
      {ArgumentKind::kEventKind, NameKind::kEventKind}};
  const auto found = kKinds.find(kind);
  return found == kKinds.end() ? std::nullopt : std::optional(found->second);
}

void PrintCompletion(const CLI::App& app, const std::vector<std::string>& words) {
  const WholeLimit limit;
  Completion completion = Complete(ReadCommands(app, kTool), words);
  for (const Candidate& candidate : completion.candidates) {
    fmt::print("{}{}{}\n", candidate.word, candidate.help.empty() ? "" : "\t", candidate.help);
  }
  if (completion.kind == ArgumentKind::kFile) return fmt::print(":file\n");
  if (completion.kind == ArgumentKind::kFolder) return fmt::print(":folder\n");
  const auto kind = NamesFor(completion.kind);
  if (!kind) return;
  int ignored = 0;
  Session session(ignored);
  session.controller = completion.given["--controller"];
  session.context = completion.given["--context"];
  session.token_file = completion.given["--token-file"];
  session.ca_file = completion.given["--ca"];
  for (const std::string& name : AskNames(session, *kind, completion.partial, kNameLimit)) {
    fmt::print("{}{}\n", completion.before, name);
  }
}

}  // namespace

void AddReferenceCommands(CLI::App& app, int& exit_code) {
  CLI::App* reference = app.add_subcommand(
      "reference", "Write the reference of all commands, or the completion script of a shell");
  const auto request = std::make_shared<ReferenceRequest>();
  reference->add_option("FORM", request->form, "Document or shell to write for")
      ->check(CLI::IsMember({"markdown", "man", "bash", "zsh", "fish"}))
      ->required();
  reference->add_option(
      "-o,--output", request->output,
      "File to write (default: standard output); for man, the folder of the pages");
  reference->callback([&app, request, &exit_code] { exit_code = WriteReference(app, *request); });

  CLI::App* complete = app.add_subcommand(
      "complete",
      "List the completions of a command line, for the scripts of `espalier reference`");
  complete->group("");
  const auto words = std::make_shared<std::vector<std::string>>();
  complete->add_option("WORD", *words,
                       "Words after `espalier`, preceded by --; the last one is completed");
  complete->callback([&app, words, &exit_code] {
    PrintCompletion(app, *words);
    exit_code = 0;
  });
}

}  // namespace espalier::cli
