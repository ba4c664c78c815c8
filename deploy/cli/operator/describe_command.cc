#include "deploy/cli/operator/describe_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "common/terminal/table.h"
#include "common/terminal/units.h"
#include "deploy/cli/operator/explain_command.h"
#include "deploy/cli/session/name_hints.h"

namespace espalier::cli {
namespace {

using Rows = std::vector<io::JsonValue>;

// So many of the latest events, actions and flows are printed; --json has them all.
constexpr std::size_t kMostPrinted = 12;

struct Subject {
  std::string kind;  // "link"
  std::string id;
  std::vector<std::string> names;  // the id, and what else events about it name
};

// What is known about a subject.
struct Description {
  io::JsonValue state;
  Rows links;    // of a node
  Rows flows;    // that cross, start or end there
  Rows history;  // samples, oldest first
  Rows events;   // newest first
  Rows intents;
  Rows audit;  // newest first
};

std::optional<Rows> AskList(Session& session, const std::string& target, const std::string& name) {
  auto answer = AskPages(session, target, name, /*print_json=*/false);
  if (!answer) return std::nullopt;
  return std::move(FindMember(*answer, name)->items);
}

// A list that is complete in one answer; none if the controller refuses, of which nothing is said.
Rows AskQuietly(Session& session, const std::string& target, const std::string& name) {
  session.is_silent = true;
  auto answer = Ask(session, "GET", target, /*print_json=*/false);
  session.is_silent = false;
  session.exit_code = 0;
  io::JsonValue* const rows = answer ? FindMember(*answer, name) : nullptr;
  return rows == nullptr ? Rows{} : std::move(rows->items);
}

// Keeps the rows that have one of these names in one of these members.
Rows Naming(const std::vector<std::string>& names, Rows rows,
            std::initializer_list<const char*> keys) {
  const auto has_name = [&](const io::JsonValue* text) {
    return text != nullptr && std::ranges::any_of(names, [&](const std::string& name) {
             return NamesId(text->text, name);
           });
  };
  std::erase_if(rows, [&](const io::JsonValue& row) {
    return std::ranges::none_of(keys, [&](const char* key) { return has_name(row.Find(key)); });
  });
  return rows;
}

// The row of a list with this id. Reports that there is none, in the words of the controller.
std::optional<io::JsonValue> FindRow(Session& session, const std::string& list,
                                     const std::string& key, const Subject& subject) {
  auto rows = AskList(session, "/api/v1/" + list, list);
  if (!rows) return std::nullopt;
  const auto found =
      std::ranges::find_if(*rows, [&](const auto& row) { return RawText(row, key) == subject.id; });
  if (found != rows->end()) return std::move(*found);
  // A job that list does not show is no job of a forest either, so that its names are those of it.
  std::vector<std::string> names;
  for (const io::JsonValue& row : *rows) names.push_back(RawText(row, key));
  const std::string meant = MeantName(subject.id, names);
  Report(session, ErrorCodeName(ErrorCode::kNotFound),
         fmt::format("there is no {} \"{}\" ({}`espalier {}` lists them)", subject.kind, subject.id,
                     meant.empty() ? "" : fmt::format("did you mean {}? ", meant), list),
         1);
  return std::nullopt;
}

// Adds what every subject has: events, intents and actions that name it.
bool AddTraces(Session& session, const Subject& subject, Description& about) {
  auto events = AskList(session, "/api/v1/events", "events");
  if (!events) return false;
  // The name of a job may be any word, so that only "job=NAME" is one.
  std::vector<std::string> in_events = subject.names;
  if (subject.kind == "job") in_events = {"job=" + subject.id};
  about.events = Naming(in_events, std::move(*events), {"text"});
  std::ranges::reverse(about.events);
  about.intents =
      Naming(subject.names, AskQuietly(session, "/api/v1/intents", "intents"), {"id", "value"});
  about.audit = Naming(subject.names, AskQuietly(session, "/api/v1/audit", "audit"), {"target"});
  std::ranges::reverse(about.audit);
  return true;
}

std::optional<Description> DescribeLink(Session& session, Subject& subject) {
  Description about;
  auto state = FindRow(session, "links", "id", subject);
  if (!state) return std::nullopt;
  about.state = std::move(*state);
  auto flows = AskList(session, "/api/v1/flows?link=" + UrlEncode(subject.id), "flows");
  if (!flows) return std::nullopt;
  about.flows = std::move(*flows);
  about.history =
      AskQuietly(session, "/api/v1/history/link?id=" + UrlEncode(subject.id), "samples");
  return about;
}

std::optional<Description> DescribeNode(Session& session, Subject& subject) {
  Description about;
  auto state = FindRow(session, "nodes", "id", subject);
  if (!state) return std::nullopt;
  about.state = std::move(*state);
  auto links = AskList(session, "/api/v1/links", "links");
  auto flows = AskList(session, "/api/v1/flows", "flows");
  if (!links || !flows) return std::nullopt;
  about.links = Naming(subject.names, std::move(*links), {"a", "b"});
  for (const io::JsonValue& link : about.links) subject.names.push_back(RawText(link, "id"));
  std::erase_if(*flows, [&](const io::JsonValue& flow) {
    const std::string via = "," + RawText(flow, "via") + ",";
    const auto is_end = [&](const char* key) { return RawText(flow, key) == subject.id; };
    return !is_end("source") && !is_end("destination") && !is_end("source_leaf") &&
           !is_end("destination_leaf") && !NamesId(via, subject.id);
  });
  about.flows = std::move(*flows);
  return about;
}

std::optional<Description> DescribeJob(Session& session, Subject& subject) {
  Description about;
  auto state = FindRow(session, "jobs", "job", subject);
  if (!state) return std::nullopt;
  about.state = std::move(*state);
  auto flows = AskList(session, "/api/v1/flows", "flows");
  if (!flows) return std::nullopt;
  std::erase_if(*flows, [&](const auto& flow) { return RawText(flow, "job") != subject.id; });
  about.flows = std::move(*flows);
  about.history = AskQuietly(session, "/api/v1/history/job?id=" + UrlEncode(subject.id), "samples");
  return about;
}

std::optional<Description> DescribeAgent(Session& session, Subject& subject) {
  Description about;
  auto state = FindRow(session, "agents", "name", subject);
  if (!state) return std::nullopt;
  about.state = std::move(*state);
  auto flows = AskList(session, "/api/v1/flows", "flows");
  if (!flows) return std::nullopt;
  std::erase_if(*flows, [&](const io::JsonValue& flow) {
    return !RawText(flow, "flow").starts_with(subject.id + ":");
  });
  about.flows = std::move(*flows);
  return about;
}

std::optional<Description> DescribeFlow(Session& session, Subject& subject) {
  Description about;
  auto answer = Ask(session, "GET", "/api/v1/flows/explain?flow=" + UrlEncode(subject.id),
                    /*print_json=*/false);
  if (!answer) return std::nullopt;
  for (const char* part : {"flow", "ended"}) {
    const io::JsonValue* const flow = answer->Find(part);
    if (flow != nullptr) subject.names.push_back(RawText(*flow, "flow"));
  }
  about.state = std::move(*answer);
  auto plans = AskList(session, "/api/v1/plans", "plans");
  if (!plans) return std::nullopt;
  about.history = Naming(subject.names, std::move(*plans), {"flow"});
  return about;
}

// "UP since 12:00, before DRAINED": the changes of a link's state in its samples.
void PrintLinkHistory(const Rows& samples) {
  std::string state;
  double most[2] = {0, 0};
  for (const io::JsonValue& sample : samples) {
    const std::string now = RawText(sample, "state");
    if (now != state) fmt::print("  {}  {}\n", RawText(sample, "time"), now);
    state = now;
    most[0] = std::max(most[0], std::strtod(RawText(sample, "bps_a_to_b").c_str(), nullptr));
    most[1] = std::max(most[1], std::strtod(RawText(sample, "bps_b_to_a").c_str(), nullptr));
  }
  fmt::print("  at most {} from A to B, and {} from B to A\n", FormatRate(most[0]),
             FormatRate(most[1]));
}

// The rounds of a job, as the samples have them.
void PrintJobHistory(const Rows& samples) {
  double longest = 0;
  double rounds = 0;
  for (const io::JsonValue& sample : samples) {
    rounds += std::strtod(RawText(sample, "rounds").c_str(), nullptr);
    longest = std::max(longest, std::strtod(RawText(sample, "longest_seconds").c_str(), nullptr));
  }
  if (rounds == 0) return fmt::print("  no all-reduce ended\n");
  fmt::print("  {:.0f} all-reduces ended; the longest took {}\n", rounds, FormatSeconds(longest));
}

void PrintHistory(const Subject& subject, const Rows& history) {
  if (subject.kind == "flow") {
    fmt::print("\nPaths that it was given, the oldest first\n");
    if (history.empty()) return fmt::print("  none that the controller remembers\n");
    return PrintTable(
        {{"TIME", "time"}, {"VIA", "via"}, {"PORT", "source_port"}, {"REASON", "reason"}}, history);
  }
  if (subject.kind != "link" && subject.kind != "job") return;
  fmt::print("\nHistory of the last 10 minutes\n");
  if (history.empty()) return fmt::print("  none yet\n");
  subject.kind == "link" ? PrintLinkHistory(history) : PrintJobHistory(history);
}

// Prints the first rows of a table under a title, and how many there are.
void PrintSome(std::string_view title, const std::vector<Column>& columns, Rows rows,
               std::string_view none) {
  const std::size_t all = rows.size();
  fmt::print("\n{}\n", title);
  if (rows.empty()) return fmt::print("  {}\n", none);
  if (all > kMostPrinted) rows.resize(kMostPrinted);
  PrintTable(columns, rows);
  if (all > kMostPrinted) fmt::print("  and {} more (--json has them)\n", all - kMostPrinted);
}

// The value of a member as people read it; "-" for one that says nothing.
std::string ShownMember(const io::JsonValue& state, const std::string& key) {
  const io::JsonValue& value = *state.Find(key);
  if (value.kind == io::JsonValue::Kind::kObject) return RawText(value, "words");
  const std::string text = RawText(state, key);
  const double number = std::strtod(value.text.c_str(), nullptr);
  if (key == "gbps") return text + " Gbit/s";
  if (key.ends_with("_bps") || key.starts_with("bps_")) return FormatRate(number);
  return key.ends_with("_seconds") ? FormatSeconds(number) : text;
}

void PrintState(const Subject& subject, const io::JsonValue& state) {
  fmt::print("{} {}\n", subject.kind, EscapeControls(subject.id));
  if (subject.kind == "flow") return PrintExplanation(state, /*is_verbose=*/true);
  for (const auto& [key, value] : state.members) {
    const bool is_name = key == "id" || key == subject.kind || key == "name";
    if (is_name || value.kind == io::JsonValue::Kind::kArray) continue;
    const std::string text = ShownMember(state, key);
    if (text != "-") fmt::print("  {:24} {}\n", key, text);
  }
}

void Print(const Subject& subject, const Description& about) {
  PrintState(subject, about.state);
  if (subject.kind == "node") {
    PrintSome("Links",
              {{"LINK", "id"},
               {"STATE", "state", CellFormat::kState},
               {"REASON", "reason"},
               {"TEST", "why.words"}},
              about.links, "none");
  }
  if (subject.kind != "flow") {
    PrintSome("Open flows",
              {{"FLOW", "flow"},
               {"JOB", "job"},
               {"SOURCE", "source"},
               {"DESTINATION", "destination"},
               {"STATUS", "status", CellFormat::kState},
               {"VIA", "via"},
               {"RATE", "achieved_bps", CellFormat::kRate}},
              about.flows, "none");
  }
  PrintHistory(subject, about.history);
  PrintSome("Events, the newest first", {{"TIME", "time"}, {"KIND", "kind"}, {"TEXT", "text"}},
            about.events, "none that the controller remembers");
  if (!about.intents.empty()) {
    PrintSome("Intents in force",
              {{"WHAT", "what"},
               {"ID", "id"},
               {"BY", "actor"},
               {"SINCE", "since"},
               {"UNTIL", "until"},
               {"REASON", "reason"}},
              about.intents, "");
  }
  PrintSome("Operators' actions, the newest first",
            {{"TIME", "time"},
             {"BY", "actor"},
             {"ACTION", "action"},
             {"RESULT", "result", CellFormat::kState},
             {"REASON", "reason"}},
            about.audit, "none");
}

void PrintJson(const Subject& subject, const Description& about) {
  io::JsonWriter json;
  json.BeginObject();
  json.Key("kind").String(subject.kind);
  json.Key("id").String(subject.id);
  json.Key("state").Value(about.state);
  for (const auto& [key, rows] : {std::pair("links", &about.links),
                                  {"flows", &about.flows},
                                  {"history", &about.history},
                                  {"events", &about.events},
                                  {"intents", &about.intents},
                                  {"audit", &about.audit}}) {
    json.Key(key).BeginArray();
    for (const io::JsonValue& row : *rows) json.Value(row);
    json.EndArray();
  }
  fmt::print("{}\n", json.EndObject().Text());
}

struct Kind {
  const char* name;
  const char* help;
  const char* id_help;
  std::optional<Description> (*describe)(Session& session, Subject& subject);
};
constexpr Kind kKinds[] = {
    {"link", "Describe a link", "Id of the link in the topology", DescribeLink},
    {"node", "Describe a host, NIC or switch", "Id of the node in the topology", DescribeNode},
    {"job", "Describe a job", "Job as `espalier jobs` names it", DescribeJob},
    {"agent", "Describe an agent", "Agent as `espalier agents` names it", DescribeAgent},
    {"flow", "Describe a flow, open or ended",
     "Flow as `espalier flows` names it, or its ends, 'h0>h4'", DescribeFlow}};

void Run(Session& session, const Kind& kind) {
  Subject subject{.kind = kind.name, .id = session.id, .names = {session.id}};
  auto about = kind.describe(session, subject);
  if (!about || !AddTraces(session, subject, *about)) return;
  if (session.json) return PrintJson(subject, *about);
  Print(subject, *about);
}

}  // namespace

bool NamesId(std::string_view text, std::string_view id) {
  if (id.empty()) return false;
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_.#:/@").find(c) != std::string_view::npos;
  };
  for (std::size_t at = text.find(id); at != std::string_view::npos; at = text.find(id, at + 1)) {
    const std::size_t end = at + id.size();
    if ((at == 0 || !is_part(text[at - 1])) && (end == text.size() || !is_part(text[end]))) {
      return true;
    }
  }
  return false;
}

void AddDescribe(CLI::App& app, const SessionPtr& session) {
  CLI::App* group = app.add_subcommand(
      "describe", "Show the state, history, events and operators' actions of one thing");
  group->require_subcommand(1);
  for (const Kind& kind : kKinds) {
    CLI::App* command = AddCommand(*group, session, kind.name, kind.help);
    command->add_option("ID", session->id, kind.id_help)->required();
    command->callback([session, &kind] { Run(*session, kind); });
  }
}

}  // namespace espalier::cli
