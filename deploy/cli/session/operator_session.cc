#include "deploy/cli/session/operator_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files/command_result.h"
#include "common/files/json_writer.h"
#include "common/files/trusted_files.h"
#include "common/http/http.h"
#include "common/http/http_client.h"
#include "common/terminal/table.h"
#include "deploy/cli/session/action_output.h"
#include "deploy/cli/session/contexts.h"
#include "deploy/cli/session/name_hints.h"

namespace espalier::cli {
namespace {

constexpr const char* kDefaultController = "unix:/run/espalier-controller/controller.sock";
// The socket of controllers of the first release.
constexpr const char* kEarlierController = "unix:/run/espalier/controller.sock";
constexpr std::string_view kUnixScheme = "unix:";
// The title of the connection's options in --help, below those of the command itself.
constexpr const char* kConnection = "Controller";

// The option if it was given, else the environment variable, else the fallback.
std::string Choose(const std::string& option, const char* variable, const std::string& fallback) {
  if (!option.empty()) return option;
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : fallback;
}

std::string DefaultController() {
  const bool is_at_default = ::access(kDefaultController + kUnixScheme.size(), F_OK) == 0;
  const bool is_earlier =
      !is_at_default && ::access(kEarlierController + kUnixScheme.size(), F_OK) == 0;
  return is_earlier ? kEarlierController : kDefaultController;
}

// The context that a session works with; none: it names its controller otherwise. Its token is for
// its controller alone.
Result<std::optional<Context>> ContextOf(const Session& session) {
  if (!session.controller.empty()) return std::nullopt;
  const char* const controller = std::getenv("ESPALIER_CONTROLLER");
  const bool is_named = controller != nullptr && *controller != '\0';
  if (is_named && session.context.empty()) return std::nullopt;
  Result<Contexts> contexts = ReadContexts();
  if (!contexts) return Propagate(contexts);
  const std::string name = Choose(session.context, "ESPALIER_CONTEXT", contexts->current);
  if (name.empty()) return std::nullopt;
  const Context* const found = contexts->Find(name);
  if (found != nullptr) return *found;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("there is no context \"{}\" in {} (`espalier context list` lists them)",
                          name, ContextsFile()));
}

// Where a session's controller is, with the access token for TCP and the CA bundle for TLS.
struct Connection {
  std::string address;
  io::HttpAccess access;
};

Result<Connection> ConnectionOf(const Session& session) {
  auto context = ContextOf(session);
  if (!context) return Propagate(context);
  const bool has_context = context->has_value();
  Connection connection;
  connection.address = has_context
                           ? (*context)->controller
                           : Choose(session.controller, "ESPALIER_CONTROLLER", DefaultController());
  connection.access.ca_file = has_context && session.ca_file.empty()
                                  ? (*context)->ca_file
                                  : Choose(session.ca_file, "ESPALIER_CA_FILE", "");
  std::string token = has_context ? "" : Choose("", "ESPALIER_TOKEN", "");
  const std::string file = has_context && session.token_file.empty()
                               ? (*context)->token_file
                               : Choose(session.token_file, "ESPALIER_TOKEN_FILE", "");
  if (!session.token_file.empty() || token.empty()) {
    if (file.empty()) return connection;
    Result<std::string> read = io::ReadSecretFile(file);
    if (!read) return Propagate(read);
    token = read->substr(0, read->find_first_of("\r\n"));
  }
  connection.access.headers.emplace_back("Authorization", "Bearer " + token);
  return connection;
}

// The address of the session's controller, for messages.
std::string ControllerAddress(const Session& session) {
  const auto connection = ConnectionOf(session);
  return connection ? connection->address : "the controller";
}

// Reports an answer other than 200. The exit code is 0 for a state that holds already.
void ReportRefusal(Session& session, const io::JsonValue& answer, int status,
                   const std::string& address) {
  const io::JsonValue* error = answer.Find("error");
  const io::JsonValue* code = error != nullptr ? error->Find("code") : nullptr;
  const io::JsonValue* message = error != nullptr ? error->Find("message") : nullptr;
  if (code == nullptr || message == nullptr) {
    const std::string text = fmt::format("{} answered with HTTP status {}", address, status);
    return Report(session, ErrorCodeName(ErrorCode::kInternal), text, 1);
  }
  const bool holds_already = code->text == ErrorCodeName(ErrorCode::kAlreadyExists);
  Report(session, code->text, AddNameHint(session, message->text),
         holds_already   ? 0
         : status == 400 ? 2
                         : 1);
}

// Removes the name of the next page from a page and returns it; "" on the last page.
std::string TakeNext(io::JsonValue& page) {
  std::string next;
  std::erase_if(page.members, [&](const auto& member) {
    if (member.first != "next") return false;
    next = member.second.text;
    return true;
  });
  return next;
}

}  // namespace

CLI::App* AddCommand(CLI::App& app, const SessionPtr& session, const std::string& name,
                     const std::string& help) {
  CLI::App* command = app.add_subcommand(name, help);
  CLI::Option* controller =
      command
          ->add_option(
              "--controller", session->controller,
              "Address of the controller's API: unix:/PATH, HOST:PORT or https://HOST:PORT "
              "(default: $ESPALIER_CONTROLLER, else " +
                  std::string(kDefaultController) + ")")
          ->type_name("ADDRESS")
          ->group(kConnection);
  command
      ->add_option("--context", session->context,
                   "Controller as `espalier context list` names it (default: $ESPALIER_CONTEXT, "
                   "else, without $ESPALIER_CONTROLLER, the one in use)")
      ->type_name("CONTEXT")
      ->excludes(controller)
      ->group(kConnection);
  command
      ->add_option("--token-file", session->token_file,
                   "File with the access token for HOST:PORT (default: the token in "
                   "$ESPALIER_TOKEN, else the file $ESPALIER_TOKEN_FILE)")
      ->group(kConnection);
  command
      ->add_option("--ca", session->ca_file,
                   "CA bundle (PEM) that verifies the server's certificate over https (default: "
                   "$ESPALIER_CA_FILE, else the system's)")
      ->group(kConnection);
  command->add_flag("--json", session->json, "Print one JSON object on standard output");
  return command;
}

io::JsonValue* FindMember(io::JsonValue& object, std::string_view key) {
  const auto found =
      std::ranges::find_if(object.members, [&](const auto& one) { return one.first == key; });
  return found == object.members.end() ? nullptr : &found->second;
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

int ReportError(const std::string& message, int code) {
  std::string_view rest = message;  // may have several lines
  std::string shown = EscapeControls(rest.substr(0, rest.find('\n')));
  while (rest.find('\n') != std::string_view::npos) {
    rest.remove_prefix(rest.find('\n') + 1);
    shown += '\n' + EscapeControls(rest.substr(0, rest.find('\n')));
  }
  fmt::print(stderr, "espalier: {}\n", shown);
  return code;
}

void Report(Session& session, std::string_view code, const std::string& message, int exit_code) {
  session.exit_code = exit_code;
  if (session.is_silent) return;
  ReportError(message, exit_code);
  if (session.json) io::PrintErrorJson(code, message);
}

Result<io::HttpResponse> Send(const Session& session, const std::string& method,
                              const std::string& target, const std::string& body, Duration limit) {
  const Result<Connection> connection = ConnectionOf(session);
  if (!connection) return Fail(ErrorCode::kInvalidArgument, connection.error().message);
  auto response =
      io::HttpFetch(connection->address, method, target, body, limit, connection->access);
  // Only then is it a question whether the controller runs.
  if (response || response.error().code != ErrorCode::kUnavailable) return response;
  return Fail(response.error().code,
              fmt::format("{} (is the controller running? set its address with --controller or "
                          "ESPALIER_CONTROLLER)",
                          response.error().message));
}

std::optional<io::JsonValue> TakeAnswer(Session& session, const io::HttpResponse& response) {
  const std::string address = ControllerAddress(session);
  auto parsed = io::ParseJson(response.body, address);
  if (!parsed) {
    Report(session, ErrorCodeName(parsed.error().code), parsed.error().message, 1);
    return std::nullopt;
  }
  if (response.status != 200) {
    ReportRefusal(session, *parsed, response.status, address);
    return std::nullopt;
  }
  session.exit_code = 0;
  return std::move(*parsed);
}

std::optional<io::JsonValue> Ask(Session& session, const std::string& method,
                                 const std::string& target, bool print_json,
                                 const std::string& body) {
  const auto response = Send(session, method, target, body);
  if (!response) {
    const bool is_ours = response.error().code == ErrorCode::kInvalidArgument;
    Report(session, ErrorCodeName(response.error().code), response.error().message,
           is_ours ? 2 : 1);
    return std::nullopt;
  }
  auto answer = TakeAnswer(session, *response);
  if (answer && session.json && print_json) {
    const std::string_view text = response->body;
    fmt::print("{}\n", text.substr(0, text.find_last_not_of("\r\n") + 1));
  }
  return answer;
}

std::string PageTarget(const std::string& target, const std::string& after) {
  const char sign = target.find('?') == std::string::npos ? '?' : '&';
  std::string page = fmt::format("{}{}limit={}", target, sign, kItemsPerPage);
  if (!after.empty()) page += "&after=" + UrlEncode(after);
  return page;
}

std::optional<io::JsonValue> AskPages(Session& session, const std::string& target,
                                      const std::string& name, bool print_json) {
  std::vector<io::JsonValue> items;
  std::string after;
  while (true) {
    auto page = Ask(session, "GET", PageTarget(target, after), /*print_json=*/false);
    if (!page) return std::nullopt;
    io::JsonValue* const array = FindMember(*page, name);
    if (array == nullptr) {
      Report(
          session, ErrorCodeName(ErrorCode::kInternal),
          fmt::format("the controller's answer has no field \"{}\" (is {} an Espalier controller?)",
                      name, ControllerAddress(session)),
          1);
      return std::nullopt;
    }
    std::ranges::move(array->items, std::back_inserter(items));
    const std::string next = TakeNext(*page);
    if (!next.empty() && next == after) {
      Report(session, ErrorCodeName(ErrorCode::kInternal),
             "the controller returned the same page of a list twice", 1);
      return std::nullopt;
    }
    if (next.empty()) {
      FindMember(*page, name)->items = std::move(items);
      if (session.json && print_json) fmt::print("{}\n", io::JsonWriter().Value(*page).Text());
      return page;
    }
    after = next;
  }
}

bool IsAgreed(Session& session, const std::string& question, std::string_view shown,
              const std::function<void()>& print) {
  if (!session.json && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1) {
    print();
    std::fflush(stdout);
    fmt::print(stderr, "espalier: {}. Go on? [y/N] ", question);
    std::string answer;
    std::getline(std::cin, answer);
    session.force = answer == "y" || answer == "yes";
    if (session.force) return true;
    session.exit_code = ReportError("nothing was changed", 1);
    return false;
  }
  Report(
      session, ErrorCodeName(ErrorCode::kFailedPrecondition),
      fmt::format("{} (give --force to do it all the same; --dry-run shows {})", question, shown),
      1);
  return false;
}

namespace {

std::string ActionTarget(const Session& session, const std::string& action, bool is_dry_run) {
  std::string target = "/api/v1/" + action + (action.find('?') == std::string::npos ? "?" : "&") +
                       "dry_run=" + (is_dry_run ? "true" : "false");
  if (!session.id.empty()) {
    target += (action == "rollback" ? "&to=" : "&id=") + UrlEncode(session.id);
  }
  if (!session.reason.empty()) target += "&reason=" + UrlEncode(session.reason);
  if (session.force) target += "&force=true";
  if (session.move_bytes) target += fmt::format("&move_bytes={}", *session.move_bytes);
  if (!session.until.empty()) target += "&until=" + UrlEncode(session.until);
  return target;
}

// Whether the action may be carried out: it cuts off no flow, or somebody confirms it.
bool IsConfirmed(Session& session, const std::string& action) {
  const auto would =
      Ask(session, "POST", ActionTarget(session, action, true), /*print_json=*/false);
  if (!would) return false;
  const std::int64_t lost = CountNewlyCutOff(*would);
  const io::JsonValue* const question = would->Find("question");
  std::string what;
  if (lost > 0) what = fmt::format("this would cut off {} flow{}", lost, lost == 1 ? "" : "s");
  if (question != nullptr && !question->text.empty()) {
    what += (what.empty() ? "" : "; ") + question->text;
  }
  if (what.empty()) return true;
  return IsAgreed(session, what, "which", [&] { PrintOutcome(*would); });
}

}  // namespace

void Act(Session& session, const std::string& action, Confirmation confirmation) {
  const bool must_ask =
      confirmation == Confirmation::kIfCutOff && !session.dry_run && !session.force;
  if (must_ask && !IsConfirmed(session, action)) return;
  const auto answer = Ask(session, "POST", ActionTarget(session, action, session.dry_run));
  if (answer && !session.json) PrintOutcome(*answer);
}

}  // namespace espalier::cli
