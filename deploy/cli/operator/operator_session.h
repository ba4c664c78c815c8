#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/event_loop.h"
#include "common/files/json.h"
#include "common/http/http.h"

namespace CLI {
class App;
}

namespace espalier::cli {

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
  std::optional<std::uint64_t> move_bytes;
  int& exit_code;
};
using SessionPtr = std::shared_ptr<Session>;

// A subcommand with the options of a session.
CLI::App* AddCommand(CLI::App& app, const SessionPtr& session, const std::string& name,
                     const std::string& help);

std::string UrlEncode(std::string_view text);
// Tells it on standard error; returns `code`.
int ReportError(const std::string& message, int code);

// One request to the controller. Errors: kInvalidArgument for the session's files, kUnavailable and
// the like, with the remedy, where no answer comes within the limit.
Result<io::HttpResponse> Send(const Session& session, const std::string& method,
                              const std::string& target, const std::string& body,
                              Duration limit = std::chrono::seconds(10));

// The answer's JSON, or none after the error was told and the exit code set; 2 for what the
// controller calls bad input, else 1.
std::optional<io::JsonValue> TakeAnswer(Session& session, const io::HttpResponse& response);

// Both: the answer's JSON, or none after the error was told and the exit code set.
std::optional<io::JsonValue> Ask(Session& session, const std::string& method,
                                 const std::string& target, bool print_json = true,
                                 const std::string& body = "");

// Items of a list that one request asks for.
inline constexpr std::size_t kItemsPerPage = 1'000;

// `target` for the page behind the item `after`; "": the first.
std::string PageTarget(const std::string& target, const std::string& after);

// As Ask, of a list that may be long: asks for its pages, and puts the arrays `name` of all of them
// together in the answer, which says otherwise what the last page says. A controller that knows no
// pages answers with the whole list. Nothing is printed unless all pages come.
std::optional<io::JsonValue> AskPages(Session& session, const std::string& target,
                                      const std::string& name);

// Has the controller do `action` ("links/fail"; with a query of its own or without) with the
// session's dry run, id, reason and end, and tells what it moved.
void Act(Session& session, const std::string& action);

}  // namespace espalier::cli
