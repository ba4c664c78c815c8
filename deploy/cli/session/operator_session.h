#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/time/event_loop.h"
#include "common/files/json.h"
#include "common/http/http.h"

namespace CLI {
class App;
}

namespace espalier::cli {

// The options that the operator commands share, and the variable that receives their exit code.
struct Session {
  explicit Session(int& code) : exit_code(code) {}

  std::string controller;
  std::string context;
  std::string token_file;
  std::string ca_file;
  bool json = false;
  bool is_silent = false;  // failures set the exit code, and nothing is printed of them
  bool dry_run = false;
  bool force = false;
  std::string reason;
  std::string until;
  std::string id;
  std::optional<std::uint64_t> move_bytes;
  int& exit_code;
};
using SessionPtr = std::shared_ptr<Session>;

// Adds a subcommand with the options of the connection to the controller, and --json.
CLI::App* AddCommand(CLI::App& app, const SessionPtr& session, const std::string& name,
                     const std::string& help);

std::string UrlEncode(std::string_view text);
// The member of an object that may be changed; null: there is none.
io::JsonValue* FindMember(io::JsonValue& object, std::string_view key);
// Prints "espalier: MESSAGE" on standard error and returns `code`.
int ReportError(const std::string& message, int code);
// The same, and sets the session's exit code; a silent session prints nothing. With --json, also
// prints the error on standard output as {"error": {"code", "message", "remedy"}}; the remedy is
// what a message has in parentheses at its end.
void Report(Session& session, std::string_view code, const std::string& message, int exit_code);

// Sends one request to the controller. Errors: kInvalidArgument if a file of the session cannot be
// read; kUnavailable and the like, with the remedy, if no answer comes within the limit.
Result<io::HttpResponse> Send(const Session& session, const std::string& method,
                              const std::string& target, const std::string& body,
                              Duration limit = std::chrono::seconds(10));

// Returns the answer's JSON. For an error, reports it, sets the exit code (2 for what the
// controller calls bad input, else 1) and returns none.
std::optional<io::JsonValue> TakeAnswer(Session& session, const io::HttpResponse& response);

// Send, then TakeAnswer. Prints the JSON if the session asks for it and `print_json` is true.
std::optional<io::JsonValue> Ask(Session& session, const std::string& method,
                                 const std::string& target, bool print_json = true,
                                 const std::string& body = "");

// The number of items of a list that one request asks for.
inline constexpr std::size_t kItemsPerPage = 1'000;

// Returns `target` for the page after the item `after`; "" stands for the first page.
std::string PageTarget(const std::string& target, const std::string& after);

// Reads a list that may be long, page by page. The answer is the last page with the arrays `name`
// of all pages concatenated. A controller without pages answers with the whole list. Prints the
// JSON as Ask does, and prints and returns nothing unless every page arrives.
std::optional<io::JsonValue> AskPages(Session& session, const std::string& target,
                                      const std::string& name, bool print_json = true);

// Whether an action may be carried out that its operator must confirm. At a terminal it prints what
// the action would do, asks, and sets the session's `force` if somebody agrees. Else it refuses the
// action; `shown` is what its dry run shows: "which".
bool IsAgreed(Session& session, const std::string& question, std::string_view shown,
              const std::function<void()>& print);

enum class Confirmation { kNone, kIfCutOff };
// Asks the controller for `action` ("links/fail"; it may have a query) with the session's dry run,
// id, reason and end, and prints what it did. With kIfCutOff, an action that would cut off flows,
// or move more than the controller is configured to ask about, is carried out only with --force, or
// if somebody at the terminal confirms it.
void Act(Session& session, const std::string& action,
         Confirmation confirmation = Confirmation::kNone);

}  // namespace espalier::cli
