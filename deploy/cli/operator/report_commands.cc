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

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kMaxBytes = 64 * 1024;  // of one request, without its last line
constexpr auto kRetryInterval = std::chrono::seconds(1);

struct Feed {
  std::string file = "-";
  bool follow = false;
};

// A request's worth of lines.
struct Lines {
  std::string text;        // empty at the end
  bool are_loads = false;  // one line with the loads of links, or with sprayed traffic
};

// Reads lines as they come. A line with loads is a request of its own.
class LineReader {
 public:
  explicit LineReader(std::istream& input) : input_(input) {}

  // Waits for a line, and returns it with the lines that are already there.
  Lines Next() {
    Lines lines;
    std::string line = std::exchange(kept_, {});
    while (!line.empty() || std::getline(input_, line)) {
      const bool are_loads = line.find("\"loads\"") != std::string::npos ||
                             line.find("\"sprayed\"") != std::string::npos;
      if (are_loads && !lines.text.empty()) {
        kept_ = std::move(line);
        break;
      }
      lines.text += line + "\n";
      lines.are_loads = are_loads;
      line.clear();
      if (are_loads || input_.rdbuf()->in_avail() <= 0 || lines.text.size() >= kMaxBytes) break;
    }
    return lines;
  }

 private:
  std::istream& input_;
  std::string kept_;
};

// Sends lines and returns the controller's answer. With `follow`, retries until there is one.
Result<io::HttpResponse> Deliver(const Session& session, bool follow, const Lines& lines) {
  bool is_reported = false;
  while (true) {
    auto response =
        Send(session, "POST", lines.are_loads ? "/api/v1/links/load" : "/api/v1/links/report",
             lines.text);
    const bool is_away = !response && response.error().code != ErrorCode::kInvalidArgument;
    if (!follow || !is_away) return response;
    if (!std::exchange(is_reported, true)) ReportError(response.error().message + "; retrying", 1);
    std::this_thread::sleep_for(kRetryInterval);
  }
}

void ReportLinks(Session& session, const Feed& feed) {
  std::ifstream file;
  if (feed.file != "-") file.open(feed.file);
  if (feed.file != "-" && !file) {
    return Report(session, ErrorCodeName(ErrorCode::kNotFound), "cannot read " + feed.file, 2);
  }
  std::ios::sync_with_stdio(false);  // makes in_avail of standard input meaningful
  std::istream& input = feed.file == "-" ? std::cin : file;
  int worst = 0;
  std::int64_t taken = 0;
  LineReader reader(input);
  for (Lines lines = reader.Next(); !lines.text.empty(); lines = reader.Next()) {
    const auto response = Deliver(session, feed.follow, lines);
    if (!response) {
      return Report(session, ErrorCodeName(response.error().code), response.error().message, 1);
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
    fmt::print("{} report{} taken\n", taken, taken == 1 ? "" : "s");
  }
}

void Declare(Session& session, const std::string& name) {
  std::ifstream file;
  if (name != "-") file.open(name);
  if (name != "-" && !file) {
    return Report(session, ErrorCodeName(ErrorCode::kNotFound), "cannot read " + name, 2);
  }
  std::istream& input = name == "-" ? std::cin : file;
  const std::string schedule(std::istreambuf_iterator<char>(input), {});
  const auto answer = Ask(session, "POST", "/api/v1/jobs/schedule", true, schedule);
  if (!answer || session.json) return;
  const std::string taken = answer->Find("taken")->text;
  fmt::print("{} flow{} taken\n", taken, taken == "1" ? "" : "s");
}

}  // namespace

void AddReportCommands(CLI::App& app, int& exit_code) {
  const auto session = std::make_shared<Session>(exit_code);
  CLI::App* report =
      app.add_subcommand("report", "Report link states or schedules of jobs to the controller");
  report->require_subcommand(1);
  CLI::App* links = AddCommand(
      *report, session, "links",
      "Report links between switches that went down or came up, and how loaded links are, as a "
      "telemetry feed sees them");
  const auto feed = std::make_shared<Feed>();
  links->add_option("FILE", feed->file, "File with one JSON object a line; - is standard input")
      ->capture_default_str();
  links->add_flag("--follow", feed->follow,
                  "Retry while the controller is unreachable, and continue after refused lines");
  links->footer(
      "Examples:\n"
      "  echo '{\"link\": \"leaf0--spine1\", \"up\": false, \"source\": \"gnmi\"}' |\n"
      "    espalier report links\n"
      "  echo '{\"source\": \"feed\", \"max_age_seconds\": 5, \"loads\":\n"
      "         [{\"link\": \"leaf0--spine1>spine1\", \"bps\": 40000000000}]}' | tr -d '\\n' |\n"
      "    espalier report links\n"
      "  espalier lab watch --loads 0.5 | espalier report links --follow");
  links->callback([session, feed] { ReportLinks(*session, *feed); });
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
