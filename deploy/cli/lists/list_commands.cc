#include "deploy/cli/lists/list_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/closest_name.h"
#include "common/terminal/interrupt.h"
#include "common/terminal/table.h"
#include "common/terminal/units.h"
#include "deploy/cli/lists/empty_list.h"
#include "deploy/cli/lists/list_specs.h"
#include "deploy/cli/lists/list_view.h"
#include "deploy/cli/session/controller_names.h"
#include "deploy/cli/session/intent_words.h"
#include "deploy/cli/session/patience.h"

namespace espalier::cli {
namespace {

// Ends the key of a column that is made here of members of the row.
constexpr std::string_view kWordsSuffix = "_words";
// Between two attempts at a controller that does not answer.
constexpr std::chrono::milliseconds kRetryInterval(1'000);

// What the options of one list command say.
struct ListOptions {
  std::vector<std::string> patterns;  // by filter of the list
  bool only_down = false;
  std::string sort;
  std::size_t limit = 0;  // 0: all
  std::string since;
  std::string output = "table";
  double watch = 0;  // seconds; 0: print once
  bool follow = false;
  bool ended = false;
  bool unannounced = false;
};

std::vector<Column> ColumnsOf(const ListSpec& spec, const ListOptions& options) {
  std::vector<Column> columns = spec.columns;
  if (options.output != "table") {
    columns.insert(columns.end(), spec.wide_columns.begin(), spec.wide_columns.end());
  }
  if (options.output == "csv") {  // has members of the answer only
    std::erase_if(columns, [](const Column& one) { return one.key.ends_with(kWordsSuffix); });
  }
  return columns;
}

// The member to sort by, which the option names by the title of its column or by its key.
std::optional<std::string> SortKey(const ListSpec& spec, std::string_view wanted) {
  std::vector<Column> columns = spec.columns;
  columns.insert(columns.end(), spec.wide_columns.begin(), spec.wide_columns.end());
  for (const Column& column : columns) {
    const auto is_same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
    if (std::ranges::equal(column.title, wanted, is_same) || column.key == wanted) {
      return column.key;
    }
  }
  return std::nullopt;
}

std::string TargetOf(const ListSpec& spec, const ListOptions& options) {
  std::string target = "/api/v1/" + (spec.path.empty() ? spec.name : spec.path);
  char sign = '?';
  for (std::size_t i = 0; i < spec.filters.size(); ++i) {
    if (spec.filters[i].query.empty() || options.patterns[i].empty()) continue;
    target += fmt::format("{}{}={}", std::exchange(sign, '&'), spec.filters[i].query,
                          UrlEncode(options.patterns[i]));
  }
  return target;
}

bool IsChosen(const ListSpec& spec, const ListOptions& options, const std::string& since,
              const io::JsonValue& row) {
  for (std::size_t i = 0; i < spec.filters.size(); ++i) {
    const ListFilter& filter = spec.filters[i];
    if (options.patterns[i].empty() || filter.keys.empty()) continue;
    if (!Matches(row, filter.keys, options.patterns[i])) return false;
  }
  if (options.only_down && RawText(row, spec.down_key) == spec.up_value) return false;
  return since.empty() || RawText(row, "time") >= since;
}

// Links that are not up first, and links of hosts last; the rest by the number of flows. A node
// with one link is a host's NIC.
void SortLinks(std::vector<io::JsonValue>& rows) {
  std::map<std::string, int> degrees;
  for (const io::JsonValue& row : rows) {
    for (const char* end : {"a", "b"}) ++degrees[RawText(row, end)];
  }
  const auto rank = [&](const io::JsonValue& row) {
    const bool is_host = degrees.at(RawText(row, "a")) == 1 || degrees.at(RawText(row, "b")) == 1;
    const long flows = std::max(std::strtol(RawText(row, "flows_a_to_b").c_str(), nullptr, 10),
                                std::strtol(RawText(row, "flows_b_to_a").c_str(), nullptr, 10));
    return std::tuple(RawText(row, "state") == "UP", is_host, -flows);
  };
  SortRows(rows, "id", false);
  std::ranges::stable_sort(rows, [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

// Jobs that run first, then those that have ended, each by name.
void SortJobs(std::vector<io::JsonValue>& rows) {
  SortRows(rows, "job", false);
  std::ranges::stable_partition(rows, [](const auto& row) { return RawText(row, "flows") != "0"; });
}

void Sort(const ListSpec& spec, const ListOptions& options, std::vector<io::JsonValue>& rows) {
  std::string_view wanted = options.sort.empty() ? std::string_view(spec.order) : options.sort;
  const bool descending = wanted.starts_with('-');
  wanted.remove_prefix(descending ? 1 : 0);
  if (options.sort.empty()) {
    if (spec.name == "links") return SortLinks(rows);
    if (spec.name == "jobs") return SortJobs(rows);
    if (!wanted.empty()) SortRows(rows, std::string(wanted), descending);
    return;
  }
  SortRows(rows, *SortKey(spec, wanted), descending);
}

// The lines that the text takes on a terminal, which wraps long ones.
std::size_t LinesOn(const winsize& terminal, const std::string& text) {
  const std::size_t columns = std::max<std::size_t>(terminal.ws_col, 1);
  std::size_t lines = 0;
  std::size_t width = 0;
  for (const char c : text) {
    if (c != '\n') {
      ++width;
      continue;
    }
    lines += std::max<std::size_t>((width + columns - 1) / columns, 1);
    width = 0;
  }
  return lines;
}

// Prints through a pager if the text does not fit on the terminal.
void PrintPaged(const std::string& text) {
  winsize size{};
  const bool fits = ::isatty(STDOUT_FILENO) != 1 ||
                    ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
                    LinesOn(size, text) < size.ws_row;
  const char* const chosen = std::getenv("PAGER");
  std::FILE* const pager = fits ? nullptr : ::popen(chosen != nullptr ? chosen : "less -FRSX", "w");
  std::fputs(text.c_str(), pager != nullptr ? pager : stdout);
  if (pager != nullptr) ::pclose(pager);
}

// The rows of the list that the options choose, in the order to show, as the array of the answer.
std::optional<io::JsonValue> Fetch(Session& session, const ListSpec& spec,
                                   const ListOptions& options, const std::string& since) {
  const std::string target = TargetOf(spec, options);
  auto answer = spec.is_long ? AskPages(session, target, spec.name, /*print_json=*/false)
                             : Ask(session, "GET", target, /*print_json=*/false);
  if (!answer) return std::nullopt;
  io::JsonValue* const rows = FindMember(*answer, spec.name);
  if (rows == nullptr) return answer;
  std::vector<io::JsonValue> chosen;
  std::ranges::copy_if(rows->items, std::back_inserter(chosen),
                       [&](const auto& row) { return IsChosen(spec, options, since, row); });
  if (chosen.empty() && options.watch <= 0) {
    const std::string why = WhyEmpty(spec, options.patterns, options.only_down, rows->items);
    fmt::print(stderr, "espalier: {}\n", why);
  }
  rows->items = std::move(chosen);
  if (!session.json || !options.sort.empty()) Sort(spec, options, rows->items);
  if (options.limit > 0 && rows->items.size() > options.limit) rows->items.resize(options.limit);
  return answer;
}

void AddText(io::JsonValue& row, std::string key, std::string text) {
  io::JsonValue value;
  value.kind = io::JsonValue::Kind::kString;
  value.text = std::move(text);
  row.members.emplace_back(std::move(key), std::move(value));
}

double NumberIn(const io::JsonValue& row, const std::string& key) {
  return std::strtod(RawText(row, key).c_str(), nullptr);
}

// Says in words what is predicted for a job.
void DescribePrediction(io::JsonValue& row) {
  const double next = NumberIn(row, "next_in_seconds");
  const std::string flows =
      RawText(row, "next_flows") + (RawText(row, "next_flows") == "1" ? " flow" : " flows");
  const bool is_known = RawText(row, "next_known") == "yes";
  AddText(row, "next_words",
          !is_known   ? "not known: no rhythm was found"
          : next >= 0 ? fmt::format("{} in {}, give or take {}", flows, FormatSeconds(next),
                                    FormatSeconds(NumberIn(row, "uncertainty_seconds")))
                      : fmt::format("{}, late by {}", flows, FormatSeconds(-next)));
  AddText(row, "paths_words",
          RawText(row, "on") != "yes" ? "computed at the start: predictions were wrong too often"
          : !is_known                 ? ""
          : RawText(row, "planned") == "yes" ? "computed in advance"
                                             : "computed at the start");
  const double bursts = NumberIn(row, "bursts");
  AddText(row, "bursts_words",
          bursts > 0 ? fmt::format("{:.1f} % of {:.0f} on the right ports",
                                   100 * NumberIn(row, "bursts_ready") / bursts, bursts)
                     : "none yet");
  AddText(row, "errors_words",
          NumberIn(row, "predicted_starts") > 0
              ? fmt::format("starts {:.1f} %, ends {:.1f} % of the period",
                            100 * NumberIn(row, "start_error_p50"),
                            100 * NumberIn(row, "end_error_p50"))
              : "not known");
}

// Makes the rows of a table readable, as the list says.
void MakeReadable(const ListSpec& spec, std::vector<io::JsonValue>& rows) {
  for (io::JsonValue& row : rows) {
    if (spec.name == "predict") DescribePrediction(row);
    if (spec.name == "intents") {
      if (io::JsonValue* const value = FindMember(row, "value")) value->text = IntentWords(row);
    }
    const std::string known = spec.known_by.empty() ? "yes" : RawText(row, spec.known_by);
    if (known == "no" || known == "0") {
      std::erase_if(row.members, [&](const auto& member) {
        return std::ranges::find(spec.known_keys, member.first) != spec.known_keys.end();
      });
    }
    for (const std::string& key : spec.percent_keys) {
      io::JsonValue* const value = FindMember(row, key);
      if (value == nullptr) continue;
      value->text = fmt::format("{:.3g} %", 100 * std::strtod(value->text.c_str(), nullptr));
    }
  }
}

// Says on standard error how many hosts of the topology have no agent.
void TellMissingAgents(Session& session) {
  const auto status = Ask(session, "GET", "/api/v1/status", /*print_json=*/false);
  const std::string missing = status ? RawText(*status, "hosts_without_agent") : "-";
  if (missing == "-" || missing == "0") return;
  fmt::print(stderr,
             "without an agent: {} of {} hosts (`espalier nodes --agent missing` lists them)\n",
             missing, RawText(*status, "hosts"));
}

// Whether the controller has answered.
bool Show(Session& session, const ListSpec& spec, const ListOptions& options,
          const std::string& since) {
  auto answer = Fetch(session, spec, options, since);
  if (!answer) return false;
  if (session.json) {
    fmt::print("{}\n", io::JsonWriter().Value(*answer).Text());
    std::fflush(stdout);
    return true;
  }
  io::JsonValue* const rows = FindMember(*answer, spec.name);
  if (rows == nullptr) return true;
  if (spec.name == "agents" && options.watch <= 0) TellMissingAgents(session);
  const std::vector<Column> columns = ColumnsOf(spec, options);
  if (options.output == "csv") {
    fmt::print("{}", FormatCsv(columns, rows->items));
    std::fflush(stdout);
    return true;
  }
  MakeReadable(spec, rows->items);
  if (options.watch > 0) {
    fmt::print("{}", OnScreen(FormatTable(columns, rows->items, UsesColours())));
    std::fflush(stdout);
  } else {
    PrintPaged(FormatTable(columns, rows->items, UsesColours()));
  }
  return true;
}

// Says on standard error how many entries lie between the last one that was read and the next: the
// controller forgets old ones.
void TellGap(const std::string& last, const io::JsonValue& next) {
  const std::uint64_t read = std::strtoull(last.c_str(), nullptr, 10);
  const std::uint64_t first = std::strtoull(RawText(next, "sequence").c_str(), nullptr, 10);
  if (read == 0 || first <= read + 1) return;
  fmt::print(stderr, "espalier: {} entries came and went too fast to be read\n", first - read - 1);
}

// Prints the entries that come from now on, oldest first, and before them the chosen ones.
void Follow(Session& session, const ListSpec& spec, const ListOptions& options,
            const std::string& since) {
  const Interrupt interrupt;
  Patience patience(session);
  std::string last = "0";
  bool is_first = true;
  while (!interrupt.IsRequested()) {
    const std::string target = fmt::format("/api/v1/{}?since={}", spec.name, last);
    const auto answer =
        patience.Try([&] { return AskPages(session, target, spec.name, /*print_json=*/false); });
    if (!answer) {
      if (!patience.has_been_answered() || !interrupt.Wait(kRetryInterval)) return;
      continue;
    }
    // A controller that has started again counts from the beginning.
    const std::string newest = RawText(*answer, "last_sequence");
    const auto number = [](const std::string& text) {
      return std::strtoull(text.c_str(), nullptr, 10);
    };
    if (newest != "-" && number(newest) < number(last)) {
      last = "0";
      continue;
    }
    std::vector<io::JsonValue> rows = answer->Find(spec.name)->items;
    if (!rows.empty()) {
      TellGap(std::exchange(last, RawText(rows.back(), "sequence")), rows.front());
    }
    std::erase_if(rows, [&](const auto& row) { return !IsChosen(spec, options, since, row); });
    // Of the history, only what was asked for.
    if (std::exchange(is_first, false) && since.empty() && rows.size() > options.limit) {
      rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(options.limit));
    }
    for (const io::JsonValue& row : rows) {
      if (session.json) {
        fmt::print("{}\n", io::JsonWriter().Value(row).Text());
        continue;
      }
      std::string line;
      for (const Column& column : spec.columns) line += CellText(row, column) + "  ";
      fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
    }
    std::fflush(stdout);
    if (!interrupt.Wait(std::chrono::milliseconds(200))) return;
  }
}

// What is wrong with a pattern for the kind of events; "": nothing, or the controller is of a
// release that does not tell its kinds.
std::string CheckEventKind(const Session& session, const std::string& pattern) {
  const auto kinds = AskNames(session, NameKind::kEventKind, "", std::chrono::seconds(2));
  if (kinds.empty() || CheckPattern(pattern, kinds).empty()) return "";
  const std::string meant = ClosestName(pattern, kinds);
  return fmt::format(
      "there is no kind of event \"{}\" ({})", EscapeControls(pattern),
      meant.empty() ? "docs/events.md lists them" : fmt::format("did you mean {}?", meant));
}

void Run(Session& session, const ListSpec& spec, const ListOptions& options) {
  std::string since;
  const auto refuse = [&](const std::string& message) {
    Report(session, ErrorCodeName(ErrorCode::kInvalidArgument), message, 2);
  };
  if (!options.since.empty()) {
    const Result<WallTime> time = ParseSince(options.since, SystemWallTime());
    if (!time) return refuse("--since: " + time.error().message);
    since = FormatWallTime(*time);
  }
  const std::string_view wanted = options.sort;
  if (!wanted.empty() && !SortKey(spec, wanted.substr(wanted.starts_with('-') ? 1 : 0))) {
    std::string titles;
    for (const Column& column : spec.columns) {
      titles += (titles.empty() ? "" : ", ") + column.title;
    }
    return refuse(
        fmt::format("--sort: there is no column \"{}\" (the columns are {})", wanted, titles));
  }
  if (spec.name == "events" && !options.patterns.front().empty()) {
    const std::string wrong = CheckEventKind(session, options.patterns.front());
    if (!wrong.empty()) return refuse("--kind: " + wrong);
  }
  if (options.follow) return Follow(session, spec, options, since);
  if (options.watch <= 0) {
    Show(session, spec, options, since);
    return;
  }
  const Interrupt interrupt;
  Patience patience(session);
  do {
    patience.Try([&] { return Show(session, spec, options, since); });
    if (!patience.has_been_answered()) return;
  } while (
      interrupt.Wait(std::chrono::milliseconds(static_cast<std::int64_t>(1000 * options.watch))));
}

// Lists of flows other than those that are open and reported.
void AddOtherFlows(CLI::App& command, ListOptions& options) {
  command
      .add_flag("--ended", options.ended,
                "List the flows that ended last, the newest first, in place of open ones")
      ->excludes(command.get_option("--leaf"))
      ->excludes(command.get_option("--link"))
      ->excludes(command.get_option("--attested"))
      ->excludes(command.get_option("--down"));
  CLI::Option* const unannounced =
      command.add_flag("--unannounced", options.unannounced,
                       "List large flows that switches saw and no agent reports "
                       "(espalier-telemetry), in place of those that agents report");
  for (const char* const other : {"--leaf", "--state", "--attested", "--link", "--down", "--ended"})
    unannounced->excludes(command.get_option(other));
}

void AddList(CLI::App& app, const SessionPtr& session, const ListSpec& spec) {
  CLI::App* command = AddCommand(app, session, spec.name, spec.help);
  const auto options = std::make_shared<ListOptions>();
  options->patterns.resize(spec.filters.size());
  for (std::size_t i = 0; i < spec.filters.size(); ++i) {
    const ListFilter& filter = spec.filters[i];
    const bool is_exact = filter.keys.empty();
    CLI::Option* option =
        command
            ->add_option(filter.option, options->patterns[i],
                         filter.help + (is_exact ? "" : "; * and ? stand for any text"))
            ->type_name(is_exact                ? "ID"
                        : filter.values.empty() ? "PATTERN"
                                                : "WORD");
    if (filter.values.empty()) continue;
    option->check(CLI::Validator(
        [&filter](const std::string& pattern) { return CheckPattern(pattern, filter.values); },
        fmt::format("{{{}}}", fmt::join(filter.values, ","))));
  }
  if (!spec.down_key.empty()) {
    command->add_flag("--down", options->only_down, "Only rows that are not up, or not fine");
  }
  command
      ->add_option("--sort", options->sort,
                   "Sort by this column; -COLUMN sorts in descending order")
      ->type_name("COLUMN");
  command->add_option("--limit,-n", options->limit, "Show only so many rows (default: all)")
      ->type_name("COUNT")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31U));
  command->add_option("--output,-o", options->output, "Form of the output; wide has more columns")
      ->capture_default_str()
      ->check(CLI::IsMember({"table", "wide", "csv", "json"}));
  CLI::Option* watch =
      command
          ->add_option("--watch", options->watch,
                       "Show the list again after every so many seconds, until Ctrl-C")
          ->type_name("SECONDS")
          ->check(CLI::Range(0.1, 86'400.0));
  if (spec.has_times) {
    command
        ->add_option("--since", options->since,
                     "Only entries from this time on: 30m, 2h or 3d ago, or 2026-11-21T18:00Z")
        ->type_name("TIME");
    command
        ->add_flag("--follow", options->follow,
                   "Keep printing entries as they happen, until Ctrl-C, after the last ones (by "
                   "--limit and --since; default: none)")
        ->excludes(watch);
  }
  if (spec.name == EndedFlowsSpec().name) {
    AddOtherFlows(*command, *options);
  }
  if (spec.name == "intents") {  // as `policy list`, `keys list`, ... have it
    command->require_subcommand(0, 1);
    CLI::App* list = AddCommand(*command, session, "list", spec.help);
    list->callback([session, &spec, options] { Run(*session, spec, *options); });
  }
  command->callback([session, &spec, options, command] {
    if (!command->get_subcommands().empty()) return;
    session->json |= options->output == "json";
    // (Written by CLI11, this would leave no room for the help of --job.)
    if (options->unannounced && command->count("--job") > 0)
      throw CLI::ExcludesError("--job", "--unannounced");
    const ListSpec& others = options->unannounced ? UnannouncedFlowsSpec() : spec;
    Run(*session, options->ended ? EndedFlowsSpec() : others, *options);
  });
}

}  // namespace

void AddListCommands(CLI::App& app, const SessionPtr& session) {
  for (const ListSpec& spec : ListSpecs()) AddList(app, session, spec);
}

}  // namespace espalier::cli
