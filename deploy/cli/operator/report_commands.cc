#include "deploy/cli/operator/report_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "deploy/cli/operator/operator_session.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kMaxBytes = 64 * 1024;  // of one request, without its last line
constexpr auto kRetryInterval = std::chrono::seconds(1);

struct Feed {
  std::string file = "-";
  bool follow = false;
};

// Waits for a line, and returns it with the lines that are already there. Empty at the end.
std::string NextLines(std::istream& input) {
  std::string lines;
  std::string line;
  while (std::getline(input, line)) {
    lines += line + "\n";
    if (input.rdbuf()->in_avail() <= 0 || lines.size() >= kMaxBytes) break;
  }
  return lines;
}

// Sends lines and returns the controller's answer. With `follow`, retries until there is one.
Result<io::HttpResponse> Deliver(const Session& session, bool follow, const std::string& lines) {
  bool is_reported = false;
  while (true) {
    auto response = Send(session, "POST", "/api/v1/links/report", lines);
    const bool is_away = !response && response.error().code != ErrorCode::kInvalidArgument;
    if (!follow || !is_away) return response;
    if (!std::exchange(is_reported, true)) ReportError(response.error().message + "; retrying", 1);
    std::this_thread::sleep_for(kRetryInterval);
  }
}

void Report(Session& session, const Feed& feed) {
  std::ifstream file;
  if (feed.file != "-") file.open(feed.file);
  if (feed.file != "-" && !file) {
    session.exit_code = ReportError("cannot read " + feed.file, 2);
    return;
  }
  std::ios::sync_with_stdio(false);  // makes in_avail of standard input meaningful
  std::istream& input = feed.file == "-" ? std::cin : file;
  int worst = 0;
  std::int64_t taken = 0;
  for (std::string lines = NextLines(input); !lines.empty(); lines = NextLines(input)) {
    const auto response = Deliver(session, feed.follow, lines);
    if (!response) {
      session.exit_code = ReportError(response.error().message, 1);
      return;
    }
    const auto answer = TakeAnswer(session, *response);
    worst = std::max(worst, session.exit_code);
    if (answer) taken += std::stoll(answer->Find("taken")->text);
    if (!answer && !feed.follow) return;
  }
  session.exit_code = worst;
  if (session.json) {
    fmt::print("{{\"taken\":{}}}\n", taken);
  } else {
    fmt::print("{} reports taken\n", taken);
  }
}

void Declare(Session& session, const std::string& name) {
  std::ifstream file;
  if (name != "-") file.open(name);
  if (name != "-" && !file) {
    session.exit_code = ReportError("cannot read " + name, 2);
    return;
  }
  std::istream& input = name == "-" ? std::cin : file;
  const std::string schedule(std::istreambuf_iterator<char>(input), {});
  const auto answer = Ask(session, "POST", "/api/v1/jobs/schedule", true, schedule);
  if (answer && !session.json) fmt::print("{} flows taken\n", answer->Find("taken")->text);
}

}  // namespace

void AddReportCommands(CLI::App& app, int& exit_code) {
  const auto session = std::make_shared<Session>(exit_code);
  CLI::App* report =
      app.add_subcommand("report", "Report link states or schedules of jobs to the controller");
  report->require_subcommand(1);
  CLI::App* links = AddCommand(
      *report, session, "links",
      "Report links between switches that went down or came up, as a telemetry feed sees them");
  const auto feed = std::make_shared<Feed>();
  links->add_option("FILE", feed->file, "File with one JSON object a line; - is standard input")
      ->capture_default_str();
  links->add_flag("--follow", feed->follow,
                  "Retry while the controller is unreachable, and continue after refused lines");
  links->footer(
      "Examples:\n"
      "  echo '{\"link\": \"leaf0--spine1\", \"up\": false, \"source\": \"gnmi\"}' |\n"
      "    espalier report links\n"
      "  espalier lab watch | espalier report links --follow");
  links->callback([session, feed] { Report(*session, *feed); });
  CLI::App* schedule =
      AddCommand(*report, session, "schedule",
                 "Declare the flows that a job starts together, and how often it does so");
  const auto file = std::make_shared<std::string>("-");
  schedule
      ->add_option("FILE", *file,
                   "JSON file with the schedule: bytes of each flow, period in microseconds, "
                   "transport verbs or tcp; - is standard input")
      ->capture_default_str();
  schedule->footer(
      "Examples:\n"
      "  echo '{\"job\": \"train\", \"flows\": [[\"h0\", \"h4\"], [\"h4\", \"h0\"]],\n"
      "         \"bytes\": 1000000, \"period_us\": 500000, \"transport\": \"verbs\"}' |\n"
      "    espalier report schedule");
  schedule->callback([session, file] { Declare(*session, *file); });
}

}  // namespace espalier::cli
