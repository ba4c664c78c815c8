#include "controller/cli/operator_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "common/identity/trusted_files.h"
#include "common/io/http.h"
#include "common/io/json.h"
#include "controller/cli/table.h"

namespace espalier::cli {
namespace {

constexpr const char* kDefaultController = "unix:/run/espalier/controller.sock";
constexpr Duration kTimeout = std::chrono::seconds(10);

// Options that all these commands share, and where their exit code goes.
struct Session {
  explicit Session(int& code) : exit_code(code) {}

  std::string controller;
  std::string token_file;
  std::string ca_file;
  bool json = false;
  bool dry_run = false;
  std::string reason;
  std::string until;
  std::string id;
  int& exit_code;
};
using SessionPtr = std::shared_ptr<Session>;

// An option, else the environment's, else the fallback.
std::string Choose(const std::string& option, const char* variable, const std::string& fallback) {
  if (!option.empty()) return option;
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : fallback;
}

std::string ControllerAddress(const Session& session) {
  return Choose(session.controller, "ESPALIER_CONTROLLER", kDefaultController);
}

// The token that the controller wants over TCP, and whom to believe over TLS.
Result<io::HttpAccess> AccessOf(const Session& session) {
  io::HttpAccess access{.ca_file = Choose(session.ca_file, "ESPALIER_CA_FILE", "")};
  std::string token = Choose("", "ESPALIER_TOKEN", "");
  const std::string file = Choose(session.token_file, "ESPALIER_TOKEN_FILE", "");
  if (!session.token_file.empty() || token.empty()) {
    if (file.empty()) return access;
    Result<std::string> read = identity::ReadSecretFile(file);
    if (!read) return Propagate(read);
    token = read->substr(0, read->find_first_of("\r\n"));
  }
  access.headers.emplace_back("Authorization", "Bearer " + token);
  return access;
}

std::string UrlEncode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ||
                       c == '.' || c == '~';
    encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

int Complain(const std::string& message, int code) {
  fmt::print(stderr, "espalier: {}\n", message);
  return code;
}

// An answer other than 200. What is so already is done: there was nothing to do.
int ComplainOfAnswer(const io::JsonValue& answer, int status, const std::string& address) {
  const io::JsonValue* error = answer.Find("error");
  const io::JsonValue* code = error != nullptr ? error->Find("code") : nullptr;
  const io::JsonValue* message = error != nullptr ? error->Find("message") : nullptr;
  if (code == nullptr || message == nullptr) {
    return Complain(fmt::format("{} says {}", address, status), 1);
  }
  if (code->text == ErrorCodeName(ErrorCode::kAlreadyExists)) return Complain(message->text, 0);
  return Complain(message->text, status == 400 ? 2 : 1);
}

// The answer's JSON, or none after the error was told and the exit code set.
std::optional<io::JsonValue> Ask(Session& session, const std::string& method,
                                 const std::string& target, bool print_json = true,
                                 const std::string& body = "") {
  const std::string address = ControllerAddress(session);
  const Result<io::HttpAccess> access = AccessOf(session);
  if (!access) {
    session.exit_code = Complain(access.error().message, 2);
    return std::nullopt;
  }
  const auto response = io::HttpFetch(address, method, target, body, kTimeout, *access);
  if (!response) {
    session.exit_code = Complain(
        fmt::format("{} (is the controller running? --controller or ESPALIER_CONTROLLER names it)",
                    response.error().message),
        1);
    return std::nullopt;
  }
  auto parsed = io::ParseJson(response->body, address);
  if (!parsed) {
    session.exit_code = Complain(parsed.error().message, 1);
    return std::nullopt;
  }
  if (response->status != 200) {
    session.exit_code = ComplainOfAnswer(*parsed, response->status, address);
    return std::nullopt;
  }
  session.exit_code = 0;
  if (session.json && print_json) fmt::print("{}\n", response->body);
  return std::move(*parsed);
}

CLI::App* AddCommand(CLI::App& app, const SessionPtr& session, const std::string& name,
                     const std::string& help) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option(
      "--controller", session->controller,
      "Its API: unix:/path, host:port or https://host:port (default $ESPALIER_CONTROLLER, else " +
          std::string(kDefaultController) + ")");
  command->add_option("--token-file", session->token_file,
                      "Its token for host:port (default $ESPALIER_TOKEN, $ESPALIER_TOKEN_FILE)");
  command->add_option("--ca", session->ca_file,
                      "Whom to believe over https (PEM; default $ESPALIER_CA_FILE, the system)");
  command->add_flag("--json", session->json, "One JSON object on standard output");
  return command;
}

// A command that shows one array of the API as a table.
void AddList(CLI::App& app, const SessionPtr& session, const std::string& name,
             const std::string& help, std::vector<Column> columns) {
  CLI::App* command = AddCommand(app, session, name, help);
  command->callback([session, name, columns = std::move(columns)] {
    const auto answer = Ask(*session, "GET", "/api/v1/" + name);
    if (!answer || session->json) return;
    if (const io::JsonValue* rows = answer->Find(name)) PrintTable(columns, rows->items);
  });
}

void AddStatus(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(app, session, "status", "The controller at a glance");
  command->callback([session] {
    const auto answer = Ask(*session, "GET", "/api/v1/status");
    if (!answer || session->json) return;
    for (const auto& [key, value] : answer->members) {
      if (value.kind == io::JsonValue::Kind::kBool) {
        fmt::print("{:22} {}\n", key, value.boolean ? "true" : "false");
      } else if (value.kind != io::JsonValue::Kind::kObject) {
        fmt::print("{:22} {}\n", key, value.text);
      }
      for (const auto& [name, count] : value.members) {
        fmt::print("{:22} {}\n", "  " + name, count.text);
      }
    }
  });
}

// "max load 3 (before: 4), bound 3: optimal"
void PrintLoads(const io::JsonValue& answer) {
  const io::JsonValue* before = answer.Find("max_load_before");
  const io::JsonValue* load = answer.Find("max_load");
  const io::JsonValue* bound = answer.Find("lower_bound");
  const io::JsonValue* optimal = answer.Find("optimal");
  if (before == nullptr || load == nullptr || bound == nullptr || optimal == nullptr) return;
  fmt::print("max load {} (before: {}), bound {}{}\n", load->text, before->text, bound->text,
             optimal->boolean ? " (optimal)" : "");
}

void PrintMoves(const Session& session, const io::JsonValue& answer) {
  if (const io::JsonValue* moves = answer.Find("moves"); moves && !moves->items.empty()) {
    PrintTable({{"FLOW", "flow"}, {"JOB", "job"}, {"FROM", "from"}, {"TO", "to"}}, moves->items);
  }
  const io::JsonValue* moved = answer.Find("moved");
  const io::JsonValue* version = answer.Find("version");
  fmt::print("{} {} flows (topology version {})\n", session.dry_run ? "would move" : "moved",
             moved != nullptr ? moved->text : "?", version != nullptr ? version->text : "?");
  if (const io::JsonValue* forests = answer.Find("forests"); forests && forests->text != "0") {
    fmt::print("makes {} forests anew (`espalier job list`)\n", forests->text);
  }
  PrintLoads(answer);
}

void Act(Session& session, const std::string& action) {
  std::string target = "/api/v1/" + action + "?dry_run=" + (session.dry_run ? "true" : "false");
  if (!session.id.empty()) {
    target += (action == "rollback" ? "&to=" : "&id=") + UrlEncode(session.id);
  }
  if (!session.reason.empty()) target += "&reason=" + UrlEncode(session.reason);
  if (!session.until.empty()) target += "&until=" + UrlEncode(session.until);
  const auto answer = Ask(session, "POST", target);
  if (answer && !session.json) PrintMoves(session, *answer);
}

// "fail link ID", "fail node ID", ...
void AddAction(CLI::App& app, const SessionPtr& session, const std::string& verb,
               const std::string& help, bool can_end) {
  CLI::App* group = app.add_subcommand(verb, help);
  group->require_subcommand(1);
  for (const std::string kind : {"link", "node"}) {
    CLI::App* command = AddCommand(*group, session, kind, help);
    command->add_option("ID", session->id, "The " + kind + "'s id in the topology")->required();
    command->add_flag("--dry-run", session->dry_run, "Only tell which flows would move");
    command->add_option("--reason", session->reason, "Kept with it, and shown to others");
    if (can_end) {
      command->add_option("--until", session->until,
                          "It ends by itself then: +30m, +2h, +3d or 2026-11-21T18:00Z");
    }
    command->callback([session, action = kind + "s/" + verb] { Act(*session, action); });
  }
}

void AddRecompute(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(app, session, "recompute", "Assign all flows anew");
  command->add_flag("--dry-run", session->dry_run, "Only tell which flows would move");
  command->add_option("--reason", session->reason, "Kept in the audit log");
  command->callback([session] { Act(*session, "recompute"); });
}

void AddReload(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(app, session, "reload",
                                 "Let the controller read its configuration and keys again");
  command->callback([session] {
    const auto answer = Ask(*session, "POST", "/api/v1/reload");
    if (answer && !session->json) fmt::print("reloaded: `espalier events` says what\n");
  });
}

void AddRollBack(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(app, session, "rollback",
                                 "Back to what operators had said at an earlier revision");
  command->add_option("--to", session->id,
                      "The revision (default: the one before the last change)");
  command->add_flag("--dry-run", session->dry_run, "Only tell which flows would move");
  command->add_option("--reason", session->reason, "Kept in the audit log");
  command->callback([session] { Act(*session, "rollback"); });
}

void PrintExplanation(const io::JsonValue& answer) {
  if (const io::JsonValue* flow = answer.Find("flow")) {
    for (const auto& [key, value] : flow->members) {
      fmt::print("{:20} {}\n", key,
                 value.kind == io::JsonValue::Kind::kBool ? (value.boolean ? "true" : "false")
                                                          : value.text);
    }
  }
  for (const char* key : {"ends_in_seconds", "port_trust", "known_ports"}) {
    if (const io::JsonValue* value = answer.Find(key)) fmt::print("{:20} {}\n", key, value->text);
  }
  if (const io::JsonValue* paths = answer.Find("paths")) {
    fmt::print("paths of the pair, and the flows on the busiest link of each:\n");
    PrintTable({{"VIA", "via"},
                {"USABLE", "usable"},
                {"CHOSEN", "chosen"},
                {"FLOWS", "busiest_link_flows"}},
               paths->items);
  }
}

void AddExplain(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(app, session, "explain", "Why a flow is on its path");
  command->add_option("FLOW", session->id, "As `flows` names it: AGENT:NUMBER")->required();
  command->callback([session] {
    const auto answer =
        Ask(*session, "GET", "/api/v1/flows/explain?flow=" + UrlEncode(session->id));
    if (answer && !session->json) PrintExplanation(*answer);
  });
}

// What `job start` is told.
struct JobOptions {
  std::string name = "job";
  std::string ranks;
  std::string collective = "allreduce";
  std::uint64_t bytes = 0;
  bool offload = false;
};

// "h0,h1,...", or a file with a JSON array of names.
Result<std::vector<std::string>> ReadRanks(const std::string& text) {
  std::vector<std::string> ranks;
  if (!std::filesystem::is_regular_file(text)) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      ranks.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return ranks;
  }
  const auto read = io::ReadFile(text);
  if (!read) return tl::unexpected<Error>(read.error());
  const auto json = io::ParseJson(*read, text);
  if (!json) return tl::unexpected<Error>(json.error());
  for (const io::JsonValue& rank : json->items) ranks.push_back(rank.text);
  return ranks;
}

void StartJob(Session& session, const JobOptions& options) {
  const auto ranks = ReadRanks(options.ranks);
  if (!ranks) {
    session.exit_code = Complain(ranks.error().message, 2);
    return;
  }
  io::JsonWriter body;
  body.BeginObject();
  body.Key("name").String(options.name);
  body.Key("ranks").BeginArray();
  for (const std::string& rank : *ranks) body.String(rank);
  body.EndArray();
  body.Key("collective").String(options.collective);
  body.Key("bytes").Integer(static_cast<std::int64_t>(options.bytes));
  body.Key("offload").Bool(options.offload);
  body.EndObject();
  const std::string target =
      fmt::format("/api/v1/jobs/start?dry_run={}&reason={}", session.dry_run ? "true" : "false",
                  UrlEncode(session.reason));
  const auto answer = Ask(session, "POST", target, true, body.Text());
  if (answer && !session.json) {
    fmt::print("job {} {}: {} ranks\n", options.name,
               session.dry_run ? "could be started" : "started", ranks->size());
  }
}

void AddJobStart(CLI::App& group, const SessionPtr& session) {
  CLI::App* command =
      AddCommand(group, session, "start", "Run the collective of these ranks on a forest");
  const auto options = std::make_shared<JobOptions>();
  command->add_option("NAME", options->name, "Names the job")->capture_default_str();
  command
      ->add_option("--ranks", options->ranks,
                   "Compute nodes, in the order of the ranks: a,b,... or a JSON file")
      ->required();
  command->add_option("--collective", options->collective, "What they do; the root is the first")
      ->capture_default_str()
      ->check(CLI::IsMember({"allreduce", "allgather", "reduce-scatter", "broadcast", "reduce"}));
  command->add_option("--bytes", options->bytes, "Of a typical call, for the expected time")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 53U));
  command->add_flag("--offload", options->offload, "The agents run it, not the programs");
  command->add_flag("--dry-run", session->dry_run, "Only tell whether it could be started");
  command->add_option("--reason", session->reason, "Kept with it, and shown to others");
  command->callback([session, options] { StartJob(*session, *options); });
}

// "job start", "job stop", "job list": collectives on forests.
void AddJobs(CLI::App& app, const SessionPtr& session) {
  CLI::App* group = app.add_subcommand("job", "Jobs whose collective runs on a forest");
  group->require_subcommand(1);
  AddJobStart(*group, session);
  CLI::App* stop = AddCommand(*group, session, "stop", "End a job");
  stop->add_option("NAME", session->id, "As `job list` names it")->required();
  stop->add_option("--reason", session->reason, "Kept in the audit log");
  stop->callback([session] {
    const auto answer = Ask(
        *session, "POST",
        "/api/v1/jobs/stop?id=" + UrlEncode(session->id) + "&reason=" + UrlEncode(session->reason));
    if (answer && !session->json) fmt::print("job {} stopped\n", session->id);
  });
  CLI::App* list = AddCommand(*group, session, "list", "Every job, its state and its forest");
  list->callback([session] {
    const auto answer = Ask(*session, "GET", "/api/v1/forests");
    if (!answer || session->json) return;
    PrintTable({{"JOB", "job"},
                {"STATUS", "status"},
                {"COLLECTIVE", "collective"},
                {"RANKS", "rank_count"},
                {"TREES", "trees_per_rank"},
                {"EDGES", "edges"},
                {"ALGBW", "algbw_gbps"},
                {"BOUND", "bound_gbps"},
                {"DONE", "collectives_done"},
                {"FAILED", "failures"},
                {"PROBLEM", "problem"}},
               answer->Find("forests")->items);
  });
}

volatile std::sig_atomic_t g_interrupted = 0;

void AddEvents(CLI::App& app, const SessionPtr& session) {
  CLI::App* command = AddCommand(app, session, "events", "What has happened, oldest first");
  const auto follow = std::make_shared<bool>(false);
  command->add_flag("--follow", *follow, "Go on with what happens from now, until Ctrl-C");
  command->callback([session, follow] {
    if (*follow) std::signal(SIGINT, [](int) { g_interrupted = 1; });
    std::string since = "0";
    do {
      const auto answer = Ask(*session, "GET", "/api/v1/events?since=" + since, !*follow);
      if (!answer) return;
      const io::JsonValue* events = answer->Find("events");
      for (const io::JsonValue& event : events->items) {
        if (session->json && !*follow) break;
        fmt::print("{} {} {}\n", event.Find("time")->text, event.Find("kind")->text,
                   event.Find("text")->text);
        since = event.Find("sequence")->text;
      }
      std::fflush(stdout);
      if (*follow) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    } while (*follow && g_interrupted == 0);
  });
}

}  // namespace

void AddOperatorCommands(CLI::App& app, int& exit_code) {
  const auto session = std::make_shared<Session>(exit_code);
  AddStatus(app, session);
  AddList(app, session, "flows", "Every elephant flow, its path and its port",
          {{"FLOW", "flow"},
           {"JOB", "job"},
           {"SOURCE", "source"},
           {"DESTINATION", "destination"},
           {"STATUS", "status"},
           {"VIA", "via"},
           {"PORT", "source_port"},
           {"REASON", "reason"},
           {"REMAINING", "remaining_bytes"}});
  AddList(app, session, "links", "Every link, its state and the flows on it",
          {{"LINK", "id"},
           {"GBPS", "gbps"},
           {"STATE", "state"},
           {"A>B", "flows_a_to_b"},
           {"B>A", "flows_b_to_a"},
           {"REASON", "reason"}});
  AddList(app, session, "agents", "Every agent that has ever connected",
          {{"AGENT", "name"},
           {"CONNECTED", "connected"},
           {"FLOWS", "flows"},
           {"PUSHED", "generation"},
           {"ACKNOWLEDGED", "acknowledged_generation"},
           {"SILENT", "silent_seconds"}});
  AddList(app, session, "plans", "What was pushed to agents: flows, their ports and paths",
          {{"TIME", "time"},
           {"FLOW", "flow"},
           {"JOB", "job"},
           {"SOURCE", "source"},
           {"DESTINATION", "destination"},
           {"PORT", "source_port"},
           {"VIA", "via"},
           {"REASON", "reason"}});
  AddList(app, session, "predict", "What each job starts next, and how often that was right",
          {{"JOB", "job"},
           {"ON", "on"},
           {"PERIOD", "period_seconds"},
           {"NEXT IN", "next_in_seconds"},
           {"+-", "uncertainty_seconds"},
           {"CONFIDENCE", "confidence"},
           {"FLOWS", "next_flows"},
           {"PLANNED", "planned"},
           {"HIT RATE", "hit_rate"}});
  AddExplain(app, session);
  AddEvents(app, session);
  AddAction(app, session, "fail", "Take it as failed: its flows move at once", true);
  AddAction(app, session, "restore", "It works again: new flows may use it", false);
  AddAction(app, session, "drain", "Move its flows away at their next message", true);
  AddAction(app, session, "undrain", "Use it again", false);
  AddRecompute(app, session);
  AddJobs(app, session);
  AddRollBack(app, session);
  AddReload(app, session);
  AddList(app, session, "intents", "What operators have said and is in force",
          {{"WHAT", "what"},
           {"ID", "id"},
           {"ACTOR", "actor"},
           {"SINCE", "since"},
           {"UNTIL", "until"},
           {"REASON", "reason"}});
  AddList(app, session, "audit", "Who did what, when, and what it moved",
          {{"TIME", "time"},
           {"ACTOR", "actor"},
           {"ACTION", "action"},
           {"TARGET", "target"},
           {"RESULT", "result"},
           {"MOVED", "moved"},
           {"REVISION", "revision"},
           {"REASON", "reason"},
           {"DETAIL", "detail"}});
}

}  // namespace espalier::cli
